// SPDX-License-Identifier: GPL-2.0
/* The reference client, as a test sees it. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

bool has_folder(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/mm/memory_peers/%s", name);
	return !access(path, F_OK);
}

static int open_client(void)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/mrx_peer_%s", client);
	fd = open(path, O_RDWR | O_CLOEXEC);
	need(fd >= 0, path);
	return fd;
}

static int kept_fd = -1;

int client_fd(void)
{
	if (kept_fd < 0)
		kept_fd = open_client();
	return kept_fd;
}

void close_client(void)
{
	if (kept_fd >= 0)
		close(kept_fd);
	kept_fd = -1;
}

int register_client(struct mrx_peer_register how)
{
	return ioctl(client_fd(), MRX_PEER_IOC_REGISTER, &how) ? errno : 0;
}

int register_kind(unsigned int slot, int kind)
{
	struct mrx_peer_register how = { .slot = slot, .version = "1.0" };

	snprintf(how.name, sizeof(how.name), "mrx_%s_%u", client, slot);
	how.invalidates = kind != FIXED;
	if (kind == UNMAPS) {
		how.version[15] = 1;
		how.ex_size = 152;
		how.ex_flags = 1;
	}
	return register_client(how);
}

void unregister_client(unsigned int slot)
{
	CHECK(!ioctl(client_fd(), MRX_PEER_IOC_UNREGISTER, slot), "unregister: %m");
}

int contexts(void)
{
	return ioctl(client_fd(), MRX_PEER_IOC_PRIVATE);
}

long asked(unsigned int slot)
{
	return ioctl(client_fd(), MRX_PEER_IOC_ASKED, slot);
}

int peer_open(struct peer *peer, enum mrx_peer_flavour flavour, size_t size, uint32_t owners)
{
	struct mrx_peer_alloc alloc = { .size = size, .flavour = flavour, .owners = owners };

	peer->size = size;
	peer->fd = open_client();
	if (ioctl(peer->fd, MRX_PEER_IOC_ALLOC, &alloc)) {
		int error = errno;

		close(peer->fd);
		return error;
	}
	peer->addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, peer->fd, 0);
	need(peer->addr != MAP_FAILED, "mmap of a peer buffer");
	return 0;
}

void peer_close(struct peer *peer)
{
	munmap(peer->addr, peer->size);
	close(peer->fd);
}

void peer_fault(const struct peer *peer, struct mrx_peer_fault fault)
{
	need(!ioctl(peer->fd, MRX_PEER_IOC_FAULT, &fault), "MRX_PEER_IOC_FAULT");
}

int peer_invalidate(const struct peer *peer, unsigned int how)
{
	return ioctl(peer->fd, MRX_PEER_IOC_INVALIDATE, how);
}

struct mrx_peer_counters peer_counters(const struct peer *peer)
{
	struct mrx_peer_counters counters;

	need(!ioctl(peer->fd, MRX_PEER_IOC_COUNTERS, &counters), "MRX_PEER_IOC_COUNTERS");
	return counters;
}

void expect_calls(const struct peer *peer, const unsigned int calls[MRX_PEER_STEPS])
{
	static const char *const names[] = {
		"acquire", "get_pages", "dma_map", "dma_unmap", "put_pages", "get_page_size",
		"release",
	};
	struct mrx_peer_counters is = peer_counters(peer);
	int i;

	for (i = 0; i < MRX_PEER_STEPS; i++)
		CHECK(is.calls[i] == calls[i], "%s was called %llu times, not %u", names[i],
		      (unsigned long long)is.calls[i], calls[i]);
	CHECK(!is.violations, "%llu violations, first: %s", (unsigned long long)is.violations,
	      is.violation);
	CHECK_EQ(is.late, 0);
}
