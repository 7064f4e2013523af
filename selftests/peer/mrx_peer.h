/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How a test tells a reference client (/dev/mrx_peer_c, /dev/mrx_peer_rust) what
 * to be and how to misbehave. Everything else than registration is about the
 * buffer of the open file.
 */
#ifndef MRX_PEER_H
#define MRX_PEER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define MRX_PEER_SLOTS 10

/* The callbacks, in the order of struct peer_memory_client. */
enum mrx_peer_step {
	MRX_PEER_ACQUIRE,
	MRX_PEER_GET_PAGES,
	MRX_PEER_DMA_MAP,
	MRX_PEER_DMA_UNMAP,
	MRX_PEER_PUT_PAGES,
	MRX_PEER_GET_PAGE_SIZE,
	MRX_PEER_RELEASE,
	MRX_PEER_STEPS,
	MRX_PEER_NO_STEP = MRX_PEER_STEPS,
};

/* Register a client in a slot: EINVAL if the registry refuses it. */
struct mrx_peer_register {
	char name[64];
	char version[16];
	__u32 slot;
	__u32 missing; /* bit per step: the callback is NULL */
	__u32 invalidates;
	__u32 ex_flags;
	__u64 ex_size;
};

enum mrx_peer_flavour {
	MRX_PEER_CONTIGUOUS, /* kernel pages next to each other */
	MRX_PEER_SCATTERED, /* kernel pages that are not */
	MRX_PEER_BAR, /* device memory without struct page */
	MRX_PEER_PAGELESS, /* kernel pages, described by addresses only */
};

struct mrx_peer_alloc {
	__u64 size;
	__u32 flavour;
	__u32 owners; /* bit per slot: that client says the buffer is its own */
};

enum mrx_peer_table {
	MRX_PEER_TABLE_RIGHT,
	MRX_PEER_TABLE_EMPTY,
	MRX_PEER_TABLE_SHORT,
	MRX_PEER_TABLE_OVERSIZED,
	MRX_PEER_TABLE_NMAP_NEGATIVE,
	MRX_PEER_TABLE_NMAP_HUGE,
	MRX_PEER_TABLE_AT_ADDRESS, /* begins at the range, not at its page */
};

struct mrx_peer_fault {
	__u32 fail; /* step that fails */
	__s32 error; /* what it returns */
	__u32 delay; /* step that takes its time */
	__u32 delay_ms;
	__u32 invalidate; /* step that invalidates its own range */
	__u32 table; /* enum mrx_peer_table */
	__u64 page_size; /* 0: the right one */
};

enum mrx_peer_invalidate {
	MRX_PEER_HOLDING_LOCK = 1 << 0, /* one that the callbacks take */
	MRX_PEER_TWICE = 1 << 1,
	MRX_PEER_GARBAGE = 1 << 2, /* tickets that were never given out */
	MRX_PEER_FINISHED = 1 << 3, /* the last ticket that was released */
};

struct mrx_peer_counters {
	__u64 calls[MRX_PEER_STEPS]; /* of callbacks */
	__u64 good[MRX_PEER_STEPS]; /* that returned success */
	__u64 active; /* ranges that are acquired and not released */
	__u64 invalidations;
	__u64 violations; /* calls that break the rules of the interface */
	__u64 late; /* unmapped or put after the client itself had */
	__u64 ticket; /* of the last get_pages */
	__u32 write, force; /* of the last get_pages */
	char device[64]; /* of the last dma_map */
	char violation[64]; /* the first */
	__u64 private_id; /* of the private data of the last acquire, or 0 */
	char private_name[64];
};

#define MRX_PEER_IOC_REGISTER _IOW('P', 1, struct mrx_peer_register)
#define MRX_PEER_IOC_UNREGISTER _IO('P', 2)
#define MRX_PEER_IOC_ALLOC _IOW('P', 3, struct mrx_peer_alloc)
#define MRX_PEER_IOC_FAULT _IOW('P', 4, struct mrx_peer_fault)
#define MRX_PEER_IOC_INVALIDATE _IO('P', 5)
#define MRX_PEER_IOC_COUNTERS _IOR('P', 6, struct mrx_peer_counters)
#define MRX_PEER_IOC_PRIVATE _IO('P', 8) /* contexts that the client keeps data of */
#define MRX_PEER_IOC_ASKED _IO('P', 7) /* how often a slot was asked to acquire */

#endif /* MRX_PEER_H */
