// SPDX-License-Identifier: GPL-2.0
/*
 * Two queue pairs of one device that are connected with each other, and what
 * they need.
 */
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "scene.h"

#define SIDES 2
#define PORT 1
#define PATIENCE (20 * HZ)
#define REMOTE_RIGHTS (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* A receive bears the number of its send, and this. */
#define RECEIVED (1ULL << 32)

struct buffer {
	u8 *bytes;
	struct scatterlist sg;
	bool mapped;
};

struct scene {
	struct ib_device *device;
	struct ib_pd *pd;
	struct ib_pd *stranger;
	struct ib_cq *cq;
	struct ib_qp *qp[SIDES];
	struct buffer buffer[SIDES];
};

struct ib_pd *scene_domain(const struct scene *scene)
{
	return scene->pd;
}

struct ib_pd *scene_stranger(const struct scene *scene)
{
	return scene->stranger;
}

int scene_users(const struct scene *scene)
{
	return atomic_read(&scene->pd->usecnt);
}

u8 *scene_bytes(const struct scene *scene, enum scene_side side)
{
	return scene->buffer[side].bytes;
}

u64 scene_address(const struct scene *scene, enum scene_side side)
{
	return sg_dma_address(&scene->buffer[side].sg);
}

void scene_fill(struct scene *scene)
{
	u8 *bytes = scene->buffer[SCENE_SOURCE].bytes;
	unsigned int i;

	for (i = 0; i < SCENE_BUFFER; i++)
		bytes[i] = i + i / 251;
	memset(scene->buffer[SCENE_TARGET].bytes, 0, SCENE_BUFFER);
}

/* --- making it --- */

static int open_buffer(struct scene *scene, struct buffer *buffer)
{
	buffer->bytes = kzalloc(SCENE_BUFFER, GFP_KERNEL);
	if (!buffer->bytes)
		return -ENOMEM;
	sg_init_one(&buffer->sg, buffer->bytes, SCENE_BUFFER);
	if (ib_dma_map_sg(scene->device, &buffer->sg, 1, DMA_BIDIRECTIONAL) != 1)
		return -EIO;
	buffer->mapped = true;
	return 0;
}

/*
 * The way to the device itself, by its IPv4 address: others may not work yet. Who
 * is in the kernel resolves the Ethernet address on his own.
 */
static int find_way(struct ib_device *device, struct rdma_ah_attr *way)
{
	const struct ib_gid_attr *attr;
	union ib_gid gid;
	int index, ret;

	for (index = 0; index < device->port_data[PORT].immutable.gid_tbl_len; index++)
		if (!rdma_query_gid(device, PORT, index, &gid) &&
		    ipv6_addr_v4mapped((struct in6_addr *)&gid))
			break;
	attr = rdma_get_gid_attr(device, PORT, index);
	if (IS_ERR(attr))
		return PTR_ERR(attr);
	way->type = rdma_ah_find_type(device, PORT);
	rdma_ah_set_port_num(way, PORT);
	rdma_ah_set_grh(way, &gid, 0, index, 64, 0);
	ret = rdma_read_gid_l2_fields(attr, NULL, way->roce.dmac);
	rdma_put_gid_attr(attr);
	return ret;
}

static int connect_qp(struct ib_qp *qp, u32 other)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = REMOTE_RIGHTS,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = other,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	int ret = find_way(qp->device, &attr.ah_attr);

	if (ret)
		return ret;
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			   IB_QP_ACCESS_FLAGS);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTR;
	ret = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			   IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
			   IB_QP_MIN_RNR_TIMER);
	if (ret)
		return ret;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			    IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

static int set_state(struct scene *scene, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int side, ret;

	for (side = 0; side < SIDES; side++) {
		ret = ib_modify_qp(scene->qp[side], &attr, IB_QP_STATE);
		if (ret)
			return ret;
	}
	return 0;
}

int scene_break(struct scene *scene)
{
	return set_state(scene, IB_QPS_ERR);
}

int scene_connect(struct scene *scene)
{
	int side, ret;

	ret = set_state(scene, IB_QPS_RESET);
	for (side = 0; side < SIDES && !ret; side++)
		ret = connect_qp(scene->qp[side], scene->qp[!side]->qp_num);
	return ret;
}

static int open_qps(struct scene *scene)
{
	struct ib_cq_init_attr cq = { .cqe = 4 * SCENE_STEPS };
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = {
			.max_send_wr = SCENE_STEPS,
			.max_recv_wr = SCENE_STEPS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	int side;

	scene->cq = ib_create_cq(scene->device, NULL, NULL, NULL, &cq);
	if (IS_ERR(scene->cq))
		return PTR_ERR(scene->cq);
	attr.send_cq = scene->cq;
	attr.recv_cq = scene->cq;
	for (side = 0; side < SIDES; side++) {
		scene->qp[side] = ib_create_qp(scene->pd, &attr);
		if (IS_ERR(scene->qp[side]))
			return PTR_ERR(scene->qp[side]);
	}
	return scene_connect(scene);
}

static int open_all(struct scene *scene)
{
	int side, ret;

	scene->pd = ib_alloc_pd(scene->device, 0);
	if (IS_ERR(scene->pd))
		return PTR_ERR(scene->pd);
	scene->stranger = ib_alloc_pd(scene->device, 0);
	if (IS_ERR(scene->stranger))
		return PTR_ERR(scene->stranger);
	for (side = 0; side < SIDES; side++) {
		ret = open_buffer(scene, &scene->buffer[side]);
		if (ret)
			return ret;
	}
	ret = open_qps(scene);
	if (!ret)
		scene_fill(scene);
	return ret;
}

struct scene *scene_open(struct ib_device *device)
{
	struct scene *scene = kzalloc(sizeof(*scene), GFP_KERNEL);
	int ret;

	if (!scene)
		return ERR_PTR(-ENOMEM);
	scene->device = device;
	ret = open_all(scene);
	if (ret) {
		scene_close(scene);
		return ERR_PTR(ret);
	}
	return scene;
}

int scene_close(struct scene *scene)
{
	int side, left = 0;

	for (side = 0; side < SIDES; side++)
		if (!IS_ERR_OR_NULL(scene->qp[side]))
			ib_destroy_qp(scene->qp[side]);
	if (!IS_ERR_OR_NULL(scene->cq))
		ib_destroy_cq(scene->cq);
	for (side = 0; side < SIDES; side++) {
		if (scene->buffer[side].mapped)
			ib_dma_unmap_sg(scene->device, &scene->buffer[side].sg, 1,
					DMA_BIDIRECTIONAL);
		kfree(scene->buffer[side].bytes);
	}
	if (!IS_ERR_OR_NULL(scene->stranger))
		ib_dealloc_pd(scene->stranger);
	if (!IS_ERR_OR_NULL(scene->pd)) {
		left = scene_users(scene);
		ib_dealloc_pd(scene->pd);
	}
	kfree(scene);
	return left;
}

int scene_map(const struct scene *scene, struct ib_mr *mr, enum scene_side side)
{
	struct scatterlist sg = scene->buffer[side].sg;
	int mapped = ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE);

	if (mapped < 0)
		return mapped;
	return mapped == 1 ? 0 : -EIO;
}

/* --- requests --- */

/* Any kind of request of the queue pair. */
union request {
	struct ib_send_wr wr;
	struct ib_rdma_wr rdma;
	struct ib_reg_wr reg;
};

static void compose(const struct scene_step *step, union request *request, struct ib_sge *sge)
{
	struct ib_send_wr *wr = &request->wr;

	*sge = step->local;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->send_flags = step->fenced ? IB_SEND_FENCE : 0;
	switch (step->op) {
	case SCENE_WRITE:
	case SCENE_READ:
		wr->opcode = step->op == SCENE_WRITE ? IB_WR_RDMA_WRITE : IB_WR_RDMA_READ;
		request->rdma.remote_addr = step->remote_addr;
		request->rdma.rkey = step->rkey;
		break;
	case SCENE_SEND:
		wr->opcode = IB_WR_SEND;
		break;
	case SCENE_REGISTER:
		wr->opcode = IB_WR_REG_MR;
		wr->num_sge = 0;
		request->reg.mr = step->mr;
		request->reg.key = step->mr->rkey;
		request->reg.access = step->access;
		break;
	case SCENE_INVALIDATE:
		wr->opcode = IB_WR_LOCAL_INV;
		wr->num_sge = 0;
		wr->ex.invalidate_rkey = step->rkey;
		break;
	case SCENE_BIND:
		wr->opcode = IB_WR_RESERVED1;
		break;
	}
}

static int post_receive(struct scene *scene, const struct scene_step *step, u64 number)
{
	struct ib_sge sge = step->landing;
	struct ib_recv_wr wr = {
		.wr_id = number | RECEIVED,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(scene->qp[1], &wr, NULL);
}

/* Waits for the completions of @sends requests and up to @receives receives. */
static int await(struct scene *scene, unsigned int sends, unsigned int receives,
		 enum ib_wc_status *status)
{
	unsigned long end = jiffies + PATIENCE;
	bool failed = false;
	struct ib_wc wc;
	int ret;

	/* The receive of a send that failed does not complete. */
	while (sends || (receives && !failed)) {
		ret = ib_poll_cq(scene->cq, 1, &wc);
		if (ret < 0)
			return ret;
		if (!ret) {
			if (time_after(jiffies, end))
				return -ETIMEDOUT;
			usleep_range(20, 100);
			continue;
		}
		failed |= wc.status != IB_WC_SUCCESS;
		if (!(wc.wr_id & RECEIVED)) {
			status[wc.wr_id] = wc.status;
			sends--;
			continue;
		}
		receives--;
		if (wc.status != IB_WC_SUCCESS)
			status[wc.wr_id & ~RECEIVED] = wc.status;
	}
	return 0;
}

int scene_do(struct scene *scene, const struct scene_step *steps, unsigned int count,
	     enum ib_wc_status *status)
{
	unsigned int i, receives = 0;
	union request *requests;
	struct ib_sge *elements;
	int ret = 0;

	if (!count || count > SCENE_STEPS)
		return -EINVAL;
	requests = kcalloc(count, sizeof(*requests), GFP_KERNEL);
	elements = kcalloc(count, sizeof(*elements), GFP_KERNEL);
	if (!requests || !elements)
		ret = -ENOMEM;
	for (i = 0; i < count && !ret; i++) {
		compose(&steps[i], &requests[i], &elements[i]);
		requests[i].wr.wr_id = i;
		requests[i].wr.next = i + 1 < count ? &requests[i + 1].wr : NULL;
		if (steps[i].op == SCENE_SEND) {
			ret = post_receive(scene, &steps[i], i);
			receives++;
		}
	}
	if (!ret)
		ret = ib_post_send(scene->qp[0], &requests[0].wr, NULL);
	if (!ret)
		ret = await(scene, count, receives, status);
	kfree(requests);
	kfree(elements);
	return ret;
}
