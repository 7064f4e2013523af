// SPDX-License-Identifier: GPL-2.0
/* Moving bytes: a device, queue pairs, layouts. */
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mrx_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

/* How long a completion may take, in seconds. */
#define PATIENCE 60

struct ibv_context *context;
struct ibv_pd *pd;
static union ibv_gid gid;
static int gid_index = -1;

void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	need(list && list[0], "there is no RDMA device");
	for (i = 0; list[i] && strcmp(ibv_get_device_name(list[i]), "rxe_mrx0"); i++)
		;
	need(list[i], "there is no rxe_mrx0");
	context = ibv_open_device(list[i]);
	need(context, "ibv_open_device");
	ibv_free_device_list(list);
	for (i = 0; gid_index < 0 && i < 16; i++)
		if (!ibv_query_gid(context, 1, i, &gid) && gid.raw[10] == 0xff)
			gid_index = i;
	need(gid_index >= 0, "the device has no IPv4 address");
	pd = ibv_alloc_pd(context);
	need(pd, "ibv_alloc_pd");
}

static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = ALL_ACCESS,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 4, .max_rd_atomic = 4, .min_rnr_timer = 1,
		.timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = {
			.is_global = 1, .port_num = 1,
			.grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 1 },
		},
	};

	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS), "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			    IBV_QP_MIN_RNR_TIMER), "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "to RTS");
}

void link_open(struct link *link)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4,
			 .max_recv_sge = 4 },
	};

	link->cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	need(link->cq, "ibv_create_cq");
	init.send_cq = init.recv_cq = link->cq;
	link->qp = ibv_create_qp(pd, &init);
	need(link->qp, "ibv_create_qp");
	connect_to_itself(link->qp);
}

void link_close(struct link *link)
{
	ibv_destroy_qp(link->qp);
	ibv_destroy_cq(link->cq);
}

void link_repair(struct link *link)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	ibv_modify_qp(link->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RESET;
	need(!ibv_modify_qp(link->qp, &attr, IBV_QP_STATE), "to RESET");
	while (ibv_poll_cq(link->cq, 1, &wc) > 0)
		;
	connect_to_itself(link->qp);
}

static enum ibv_wc_status wait_for(struct link *link)
{
	time_t end = time(NULL) + PATIENCE;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(link->cq, 1, &wc)))
		need(time(NULL) < end, "a completion");
	need(n > 0, "ibv_poll_cq");
	return wc.status;
}

enum ibv_wc_status transfer(struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge local,
			    uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = &local, .num_sge = 1, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	};

	need(!ibv_post_send(link->qp, &wr, &bad), "ibv_post_send");
	return wait_for(link);
}

enum ibv_wc_status send_recv(struct link *link, struct ibv_sge from, struct ibv_sge to)
{
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &to, .num_sge = 1 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	enum ibv_wc_status first, second;

	need(!ibv_post_recv(link->qp, &recv, &bad_recv), "ibv_post_recv");
	need(!ibv_post_send(link->qp, &wr, &bad), "ibv_post_send");
	first = wait_for(link);
	second = wait_for(link);
	return first ? first : second;
}

struct ibv_sge sge(const void *addr, size_t len, const struct ibv_mr *mr)
{
	return (struct ibv_sge){ .addr = (uintptr_t)addr, .length = len, .lkey = mr->lkey };
}

struct ibv_mr *empty_region(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, NULL, 0, IBV_ACCESS_ZERO_BASED | ALL_ACCESS);

	need(mr, "a region without memory");
	return mr;
}

/* --- layouts, by the ioctl itself --- */

struct command {
	struct ib_uverbs_ioctl_hdr header;
	struct ib_uverbs_attr attrs[6];
};

static struct ib_uverbs_attr *attr(struct command *cmd, uint16_t id, size_t len, uint64_t data)
{
	struct ib_uverbs_attr *attr = &cmd->attrs[cmd->header.num_attrs++];

	attr->attr_id = id;
	attr->len = len;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	attr->data = data;
	return attr;
}

static int set_layout(struct ibv_mr *mr, uint16_t method, struct mrx_user_list *list,
		      struct mrx_user_list *dimensions)
{
	uint32_t lkey, rkey;
	struct command cmd = {
		.header = { .object_id = UVERBS_OBJECT_MR, .method_id = method,
			    .driver_id = RDMA_DRIVER_RXE },
	};

	attr(&cmd, MRX_ATTR_SET_LAYOUT_HANDLE, 0, mr->handle);
	attr(&cmd, MRX_ATTR_SET_LAYOUT_LIST, sizeof(*list), (uintptr_t)list);
	if (dimensions)
		attr(&cmd, MRX_ATTR_SET_LAYOUT_DIMENSIONS, sizeof(*dimensions),
		     (uintptr_t)dimensions);
	attr(&cmd, MRX_ATTR_SET_LAYOUT_RESP_LKEY, 4, (uintptr_t)&lkey);
	attr(&cmd, MRX_ATTR_SET_LAYOUT_RESP_RKEY, 4, (uintptr_t)&rkey);
	cmd.header.length = offsetof(struct command, attrs) +
		cmd.header.num_attrs * sizeof(cmd.attrs[0]);
	if (ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, &cmd))
		return errno;
	mr->lkey = lkey;
	mr->rkey = rkey;
	return 0;
}

int set_layout_sg(struct ibv_mr *mr, const struct ibv_sge *list, unsigned int n)
{
	struct ib_uverbs_sge raw[n];
	struct mrx_user_list user = {
		.addr = (uintptr_t)raw, .count = n, .entry_size = sizeof(raw[0]),
	};
	unsigned int i;

	for (i = 0; i < n; i++)
		raw[i] = (struct ib_uverbs_sge){
			.addr = list[i].addr, .length = list[i].length, .lkey = list[i].lkey,
		};
	return set_layout(mr, MRX_METHOD_MR_SET_LAYOUT_SG, &user, NULL);
}

int set_layout_interleaved(struct ibv_mr *mr, const struct ibv_sge list[2], uint64_t stride,
			   uint64_t count)
{
	struct mrx_dimension dimensions[2];
	struct mrx_interleaved entries[2];
	struct mrx_user_list user = {
		.addr = (uintptr_t)entries, .count = 2, .entry_size = sizeof(entries[0]),
	};
	struct mrx_user_list user_dimensions = {
		.addr = (uintptr_t)dimensions, .count = 2, .entry_size = sizeof(dimensions[0]),
	};
	int i;

	for (i = 0; i < 2; i++) {
		entries[i] = (struct mrx_interleaved){
			.addr = list[i].addr, .length = list[i].length, .lkey = list[i].lkey,
			.num_repeated = 1, .num_dimensions = 1,
		};
		dimensions[i] = (struct mrx_dimension){ stride, count };
	}
	return set_layout(mr, MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED, &user, &user_dimensions);
}

int set_peer_context(struct ibv_context *context, const char name[64], uint64_t id)
{
	struct mrx_peer_context what = { .id = id };
	struct command cmd = {
		.header = { .object_id = UVERBS_OBJECT_DEVICE,
			    .method_id = MRX_METHOD_SET_PEER_CONTEXT,
			    .driver_id = RDMA_DRIVER_RXE },
	};

	memcpy(what.name, name, sizeof(what.name));
	attr(&cmd, MRX_ATTR_SET_PEER_CONTEXT, sizeof(what), (uintptr_t)&what);
	cmd.header.length = offsetof(struct command, attrs) + sizeof(cmd.attrs[0]);
	return ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, &cmd) ? errno : 0;
}

/* --- re-registration, by the command itself --- */

static int change(struct ibv_mr *mr, const struct ib_uverbs_rereg_mr *what)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_rereg_mr body;
	} cmd = {
		.header = { .command = IB_USER_VERBS_CMD_REREG_MR,
			    .in_words = sizeof(cmd) / 4, .out_words = sizeof(resp) / 4 },
		.body = *what,
	};

	cmd.body.response = (uintptr_t)&resp;
	cmd.body.mr_handle = mr->handle;
	if (write(mr->context->cmd_fd, &cmd, sizeof(cmd)) != sizeof(cmd))
		return errno;
	mr->lkey = resp.lkey;
	mr->rkey = resp.rkey;
	return 0;
}

int change_memory(struct ibv_mr *mr, void *addr, size_t len)
{
	return change(mr, &(struct ib_uverbs_rereg_mr){
		.flags = IBV_REREG_MR_CHANGE_TRANSLATION, .start = (uintptr_t)addr,
		.length = len, .hca_va = (uintptr_t)addr,
	});
}

int change_access(struct ibv_mr *mr, int access)
{
	return change(mr, &(struct ib_uverbs_rereg_mr){
		.flags = IBV_REREG_MR_CHANGE_ACCESS, .access_flags = access,
	});
}

/* --- bytes --- */

static uint8_t byte(unsigned int seed, size_t i)
{
	return (i * 31 + (i >> 8) * 7 + (i >> 16) + seed * 101) & 0xff;
}

void fill(void *to, size_t len, unsigned int seed)
{
	volatile uint8_t *bytes = to;
	size_t i;

	for (i = 0; i < len; i++)
		bytes[i] = byte(seed, i);
}

bool filled(const void *from, size_t len, unsigned int seed, size_t skip)
{
	const volatile uint8_t *bytes = from;
	size_t i;

	for (i = 0; i < len; i++)
		if (bytes[i] != byte(seed, skip + i))
			return CHECK(false, "byte %zu is %#x, not %#x", i, bytes[i],
				     byte(seed, skip + i));
	return true;
}

void *host_alloc(size_t size)
{
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(addr != MAP_FAILED, "mmap");
	return addr;
}

void host_free(void *addr, size_t size)
{
	munmap(addr, size);
}
