// SPDX-License-Identifier: GPL-2.0
/* Queue pairs, requests, raw ioctls. */
#include "odp_test.h"

#include <errno.h>
#include <infiniband/mrx.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mrx_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define NEAR_PSN 0x111
#define FAR_PSN 0x222

static int gid_index(union ibv_gid *gid)
{
	for (int i = 0; i < 16; i++) {
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(context, 1, i, &entry, 0))
			continue;
		if (entry.gid.raw[10] == 0xff && entry.gid.raw[11] == 0xff) {
			*gid = entry.gid;
			return i;
		}
	}
	return -1;
}

static int connect_qp(struct ibv_qp *qp, uint32_t dest, uint32_t psn, uint32_t dest_psn)
{
	bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;
	union ibv_gid gid;
	int index = gid_index(&gid);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = REMOTE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL,
	};
	int mask = IBV_QP_STATE;

	if (index < 0)
		return -1;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
		return -1;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest,
		.rq_psn = dest_psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .sgid_index = index, .hop_limit = 1 } },
	};
	if (!ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (rc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (ibv_modify_qp(qp, &attr, mask))
		return -1;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.sq_psn = psn,
		.timeout = 14,
		.retry_cnt = 1,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (rc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp, &attr, mask);
}

static struct ibv_qp *make_qp(struct pair *pair, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = pair->srq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4 },
		.qp_type = pair->type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pair->pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	if (pair->type == IBV_QPT_RC)
		init.send_ops_flags |= IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE;
	return ibv_create_qp_ex(pair->context, &init);
}

static int connect_pair(struct pair *pair)
{
	pair->near = make_qp(pair, pair->near_cq);
	pair->far = make_qp(pair, pair->far_cq);
	if (!pair->near || !pair->far)
		return -1;
	return connect_qp(pair->near, pair->far->qp_num, NEAR_PSN, FAR_PSN) ||
	       connect_qp(pair->far, pair->near->qp_num, FAR_PSN, NEAR_PSN);
}

struct pair *pair_of(enum ibv_qp_type type, bool shares_receives)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 4 } };
	struct pair *pair = calloc(1, sizeof(*pair));

	pair->type = type;
	pair->context = context;
	pair->pd = ibv_alloc_pd(context);
	pair->near_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	pair->far_cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	if (pair->pd && shares_receives)
		pair->srq = ibv_create_srq(pair->pd, &attr);
	if (!pair->pd || !pair->near_cq || !pair->far_cq || (shares_receives && !pair->srq) ||
	    connect_pair(pair)) {
		perror("# no pair of queue pairs");
		exit(1);
	}
	return pair;
}

struct pair *pair_new(void)
{
	return pair_of(IBV_QPT_RC, false);
}

void pair_reset(struct pair *pair)
{
	struct ibv_wc wc;

	ibv_destroy_qp(pair->near);
	ibv_destroy_qp(pair->far);
	while (ibv_poll_cq(pair->near_cq, 1, &wc) > 0 || ibv_poll_cq(pair->far_cq, 1, &wc) > 0)
		;
	if (connect_pair(pair)) {
		perror("# no new queue pairs");
		exit(1);
	}
}

static int connect_again(struct ibv_qp *qp, uint32_t number, uint32_t psn, uint32_t dest_psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE) || connect_qp(qp, number, psn, dest_psn);
}

int pair_connect_near(struct pair *pair, uint32_t number)
{
	return connect_again(pair->near, number, NEAR_PSN, FAR_PSN);
}

int pair_connect_far(struct pair *pair, uint32_t number)
{
	return connect_again(pair->far, number, FAR_PSN, NEAR_PSN);
}

void pair_free(struct pair *pair)
{
	ibv_destroy_qp(pair->near);
	ibv_destroy_qp(pair->far);
	if (pair->srq)
		ibv_destroy_srq(pair->srq);
	ibv_destroy_cq(pair->near_cq);
	ibv_destroy_cq(pair->far_cq);
	/* Regions that a failed test left behind keep the domain; they end with the process. */
	ibv_dealloc_pd(pair->pd);
	free(pair);
}

static int wait_cq(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	/* Long enough for a slow machine; nobody waits so long if all goes well. */
	for (int i = 0; i < 1000000; i++) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n > 0)
			return wc.status;
		if (n < 0)
			break;
		if (i > 1000)
			usleep(50);
	}
	return -1;
}

int wait_near(struct pair *pair)
{
	return wait_cq(pair->near_cq);
}

int wait_far(struct pair *pair)
{
	return wait_cq(pair->far_cq);
}

int post_recv(struct pair *pair, struct ibv_sge *to)
{
	struct ibv_recv_wr *bad, wr = { .sg_list = to, .num_sge = 1 };

	return pair->srq ? ibv_post_srq_recv(pair->srq, &wr, &bad) :
			   ibv_post_recv(pair->far, &wr, &bad);
}

struct ibv_ah *far_address(struct pair *pair)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };

	attr.grh.sgid_index = gid_index(&attr.grh.dgid);
	return ibv_create_ah(pair->pd, &attr);
}

int rdma(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t lkey, const void *addr,
	 uint32_t rkey, uint64_t remote, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)addr, .length = len, .lkey = lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = remote, .rkey = rkey },
	};

	if (ibv_post_send(pair->near, &wr, &bad))
		return -1;
	return wait_cq(pair->near_cq);
}

int send_recv(struct pair *pair, uint32_t from_key, const void *from, uint32_t to_key, void *to,
	      size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)to, .length = len, .lkey = to_key };
	int status;

	if (post_recv(pair, &sge))
		return -1;
	status = rdma(pair, IBV_WR_SEND, from_key, from, 0, 0, len);
	return status ? status : wait_cq(pair->far_cq);
}

struct ibv_mr *reg(struct pair *pair, void *addr, size_t len, int access)
{
	return ibv_reg_mr(pair->pd, addr, len, access);
}

/* An ioctl of the uverbs tree, attribute by attribute. */
struct call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[12];
};

static void add(struct call *call, uint16_t id, uint16_t len, uint64_t data)
{
	call->attrs[call->hdr.num_attrs++] = (struct ib_uverbs_attr){
		.attr_id = id,
		.len = len,
		.flags = UVERBS_ATTR_F_MANDATORY,
		.data = data,
	};
}

static int run(struct ibv_context *context, struct call *call, uint16_t object, uint16_t method)
{
	call->hdr.object_id = object;
	call->hdr.method_id = method;
	call->hdr.driver_id = RDMA_DRIVER_RXE;
	call->hdr.length = sizeof(call->hdr) + call->hdr.num_attrs * sizeof(call->attrs[0]);
	return ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, call) ? errno : 0;
}

int advise(struct ibv_pd *pd, uint64_t advice, uint32_t flags, const struct ibv_sge *list,
	   uint32_t count)
{
	int answer = mrx_advise_mr(pd, advice, flags, (struct ibv_sge *)list, count);

	if (answer && answer != errno)
		printf("# errno is %d, and the answer %d\n", errno, answer);
	return answer;
}

int advise_bytes(struct ibv_pd *pd, const void *list, size_t len)
{
	struct call call = { 0 };

	add(&call, UVERBS_ATTR_ADVISE_MR_PD_HANDLE, 0, pd->handle);
	add(&call, UVERBS_ATTR_ADVISE_MR_ADVICE, 8, IBV_ADVISE_MR_ADVICE_PREFETCH);
	add(&call, UVERBS_ATTR_ADVISE_MR_FLAGS, 4, IBV_ADVISE_MR_FLAG_FLUSH);
	add(&call, UVERBS_ATTR_ADVISE_MR_SGE_LIST, len, (uintptr_t)list);
	return run(pd->context, &call, UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
}

int advise_one(struct ibv_mr *mr, uint64_t advice, uint32_t flags, void *addr, size_t len)
{
	struct ibv_sge sge = { .addr = (uintptr_t)addr, .length = len, .lkey = mr->lkey };

	return advise(mr->pd, advice, flags, &sge, 1);
}

int reg_dmabuf(struct ibv_pd *pd, uint64_t offset, uint64_t len, uint64_t iova, int fd, int access,
	       struct raw_mr *mr)
{
	struct call call = { 0 };
	int ret;

	add(&call, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, len);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_FD, 4, fd);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, access);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&mr->lkey);
	add(&call, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&mr->rkey);
	ret = run(pd->context, &call, UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);
	mr->handle = call.attrs[0].data;
	return ret;
}

/* As in <rdma/ib_user_ioctl_cmds.h> of the kernel; that of distributions may be older. */
enum {
	METHOD_REG_MR = 5,
	REG_MR_HANDLE = 0,
	REG_MR_PD_HANDLE,
	REG_MR_DMA_HANDLE,
	REG_MR_IOVA,
	REG_MR_ADDR,
	REG_MR_LENGTH,
	REG_MR_ACCESS_FLAGS,
	REG_MR_FD,
	REG_MR_FD_OFFSET,
	REG_MR_RESP_LKEY,
	REG_MR_RESP_RKEY,
};

int reg_fd(struct ibv_pd *pd, uint64_t offset, uint64_t len, uint64_t iova, int fd, int access,
	   struct raw_mr *mr)
{
	struct call call = { 0 };
	int ret;

	add(&call, REG_MR_HANDLE, 0, 0);
	add(&call, REG_MR_PD_HANDLE, 0, pd->handle);
	add(&call, REG_MR_IOVA, 8, iova);
	add(&call, REG_MR_LENGTH, 8, len);
	add(&call, REG_MR_ACCESS_FLAGS, 4, access);
	add(&call, REG_MR_FD, 0, fd);
	add(&call, REG_MR_FD_OFFSET, 8, offset);
	add(&call, REG_MR_RESP_LKEY, 4, (uintptr_t)&mr->lkey);
	add(&call, REG_MR_RESP_RKEY, 4, (uintptr_t)&mr->rkey);
	ret = run(pd->context, &call, UVERBS_OBJECT_MR, METHOD_REG_MR);
	mr->handle = call.attrs[0].data;
	return ret;
}

int rereg_raw(struct ibv_pd *pd, struct raw_mr *mr, int flags, struct ibv_pd *to, void *addr,
	      size_t len, int access)
{
	struct ib_uverbs_rereg_mr_resp answer = { 0 };
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_rereg_mr args;
	} call = {
		.hdr = {
			.command = IB_USER_VERBS_CMD_REREG_MR,
			.in_words = sizeof(call) / 4,
			.out_words = sizeof(answer) / 4,
		},
		.args = {
			.response = (uintptr_t)&answer,
			.mr_handle = mr->handle,
			.flags = flags,
			.start = (uintptr_t)addr,
			.length = len,
			.hca_va = (uintptr_t)addr,
			.pd_handle = to ? to->handle : 0,
			.access_flags = access,
		},
	};

	if (write(pd->context->cmd_fd, &call, sizeof(call)) != sizeof(call))
		return errno;
	mr->lkey = answer.lkey;
	mr->rkey = answer.rkey;
	return 0;
}

int dereg_raw(struct ibv_context *context, uint32_t handle)
{
	struct call call = { 0 };

	add(&call, UVERBS_ATTR_DESTROY_MR_HANDLE, 0, handle);
	return run(context, &call, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);
}

int set_layout(struct ibv_mr *mr, struct layout_list *list, struct layout_list *dimensions)
{
	struct call call = { 0 };
	int ret;

	add(&call, MRX_ATTR_SET_LAYOUT_HANDLE, 0, mr->handle);
	add(&call, MRX_ATTR_SET_LAYOUT_FLAGS, 4, 0);
	add(&call, MRX_ATTR_SET_LAYOUT_LIST, sizeof(*list), (uintptr_t)list);
	if (dimensions)
		add(&call, MRX_ATTR_SET_LAYOUT_DIMENSIONS, sizeof(*list), (uintptr_t)dimensions);
	add(&call, MRX_ATTR_SET_LAYOUT_RESP_LKEY, 4, (uintptr_t)&mr->lkey);
	add(&call, MRX_ATTR_SET_LAYOUT_RESP_RKEY, 4, (uintptr_t)&mr->rkey);
	ret = run(mr->context, &call, UVERBS_OBJECT_MR,
		  dimensions ? MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED : MRX_METHOD_MR_SET_LAYOUT_SG);
	return ret;
}
