// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs that a user in the kernel can post and no module of the distribution
 * does: RDMA READ with invalidation of the local key.
 *
 *   insmod mrx_kverbs.ko device=rxe_mrx0 gid=1
 *
 * loads if all is as it should be. Else it says in the log what is not, and
 * fails with ECANCELED.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

static char *device;
module_param(device, charp, 0400);
MODULE_PARM_DESC(device, "name of the RDMA device");

static int gid = 1;
module_param(gid, int, 0400);
MODULE_PARM_DESC(gid, "index of the address that is used");

#define PORT 1
#define WAIT_MS 10000
#define BYTES 1000

/* A page that requests name by a region of its own. */
struct piece {
	struct page *page;
	struct scatterlist sg;
	bool mapped;
	struct ib_mr *mr;
};

struct scene {
	struct ib_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *a, *b;
	struct piece source, sink;
};

#define expect(condition) \
	({ \
		bool ok = (condition); \
		if (!ok) \
			pr_info("not so: %s (line %d)\n", #condition, __LINE__); \
		ok ? 0 : -ECANCELED; \
	})

/* The next completion; its status, or a negative errno value. */
static int wait(struct scene *s, struct ib_wc *wc)
{
	ktime_t end = ktime_add_ms(ktime_get(), WAIT_MS);

	while (ib_poll_cq(s->cq, 1, wc) != 1) {
		if (ktime_after(ktime_get(), end))
			return expect(!"a completion came in time");
		usleep_range(100, 200);
	}
	return wc->status;
}

/* Posts a request and checks how it ends. */
static int do_request(struct scene *s, struct ib_send_wr *wr, enum ib_wc_status status,
		      enum ib_wc_opcode opcode)
{
	struct ib_wc wc;
	int err;

	wr->send_flags = IB_SEND_SIGNALED;
	err = expect(ib_post_send(s->a, wr, NULL) == 0);
	if (err)
		return err;
	err = wait(s, &wc);
	if (err < 0)
		return err;
	err = expect(wc.status == status);
	if (!err && status == IB_WC_SUCCESS)
		err = expect(wc.opcode == opcode);
	return err;
}

static int make_piece(struct scene *s, struct piece *it, int fill)
{
	it->page = alloc_page(GFP_KERNEL);
	if (!it->page)
		return -ENOMEM;
	memset(page_address(it->page), fill, PAGE_SIZE);
	sg_init_table(&it->sg, 1);
	sg_set_page(&it->sg, it->page, PAGE_SIZE, 0);
	if (ib_dma_map_sg(s->dev, &it->sg, 1, DMA_BIDIRECTIONAL) != 1)
		return -EIO;
	it->mapped = true;
	it->mr = ib_alloc_mr(s->pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(it->mr)) {
		int err = PTR_ERR(it->mr);

		it->mr = NULL;
		return err;
	}
	return 0;
}

static void end_piece(struct scene *s, struct piece *it)
{
	if (it->mr)
		ib_dereg_mr(it->mr);
	if (it->mapped)
		ib_dma_unmap_sg(s->dev, &it->sg, 1, DMA_BIDIRECTIONAL);
	if (it->page)
		__free_page(it->page);
}

/* Makes the region of a piece valid, under the key that it has now. */
static int register_piece(struct scene *s, struct piece *it)
{
	struct ib_reg_wr reg = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = it->mr,
		.key = it->mr->rkey,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ,
	};
	int err = expect(ib_map_mr_sg(it->mr, &it->sg, 1, NULL, PAGE_SIZE) == 1);

	return err ?: do_request(s, &reg.wr, IB_WC_SUCCESS, IB_WC_REG_MR);
}

static struct ib_qp *make_qp(struct scene *s)
{
	struct ib_qp_init_attr init = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *qp = ib_create_qp(s->pd, &init);

	return IS_ERR(qp) ? NULL : qp;
}

static int connect(struct scene *s, struct ib_qp *qp, struct ib_qp *to)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = to->qp_num,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	union ib_gid self;
	int err = rdma_query_gid(s->dev, PORT, gid, &self);

	if (err)
		return err;
	attr.ah_attr.type = rdma_ah_find_type(s->dev, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, &self, 0, gid, 64, 0);
	err = ib_modify_qp(qp, &attr,
			   IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTR;
	err = ib_modify_qp(qp, &attr,
			   IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(qp, &attr,
			    IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				    IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

/* A READ from the source to the sink, of these bytes of each. */
static int read(struct scene *s, enum ib_wr_opcode opcode, u32 invalidate,
		enum ib_wc_status status)
{
	struct ib_sge sge = {
		.addr = s->sink.mr->iova,
		.length = BYTES,
		.lkey = s->sink.mr->lkey,
	};
	struct ib_rdma_wr wr = {
		.wr.opcode = opcode,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.wr.ex.invalidate_rkey = invalidate,
		.remote_addr = s->source.mr->iova,
		.rkey = s->source.mr->rkey,
	};

	return do_request(s, &wr.wr, status, IB_WC_RDMA_READ);
}

/*
 * A READ with invalidation fetches the bytes, and then its key is void: a READ
 * into the region ends with a protection error.
 */
static int read_with_invalidation(struct scene *s)
{
	u8 *to = page_address(s->sink.page);
	int err = register_piece(s, &s->source) ?: register_piece(s, &s->sink);

	if (err)
		return err;
	err = read(s, IB_WR_RDMA_READ, 0, IB_WC_SUCCESS);
	if (err)
		return err;
	memset(to, 0, PAGE_SIZE);
	err = read(s, IB_WR_RDMA_READ_WITH_INV, s->sink.mr->rkey, IB_WC_SUCCESS) ?:
		      expect(to[0] == 0x5a && !memchr_inv(to, 0x5a, BYTES) && to[BYTES] == 0);
	if (err)
		return err;
	/* a region that was invalidated can be registered again, with another key */
	ib_update_fast_reg_key(s->sink.mr, ib_inc_rkey(s->sink.mr->rkey));
	err = register_piece(s, &s->sink) ?: read(s, IB_WR_RDMA_READ, 0, IB_WC_SUCCESS) ?:
		      read(s, IB_WR_RDMA_READ_WITH_INV, s->sink.mr->rkey, IB_WC_SUCCESS);
	if (err)
		return err;
	memset(to, 0, PAGE_SIZE);
	return read(s, IB_WR_RDMA_READ, 0, IB_WC_LOC_PROT_ERR) ?:
		       expect(!memchr_inv(to, 0, PAGE_SIZE));
}

static int run(struct ib_device *dev)
{
	struct scene s = { .dev = dev };
	int err = -ENOMEM;

	s.pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(s.pd))
		return PTR_ERR(s.pd);
	s.cq = ib_alloc_cq(dev, NULL, 64, 0, IB_POLL_DIRECT);
	if (IS_ERR(s.cq)) {
		err = PTR_ERR(s.cq);
		goto no_cq;
	}
	s.a = make_qp(&s);
	s.b = make_qp(&s);
	if (s.a && s.b)
		err = connect(&s, s.a, s.b) ?: connect(&s, s.b, s.a) ?:
			      make_piece(&s, &s.source, 0x5a) ?: make_piece(&s, &s.sink, 0) ?:
			      read_with_invalidation(&s);
	if (s.b)
		ib_destroy_qp(s.b);
	if (s.a)
		ib_destroy_qp(s.a);
	end_piece(&s, &s.source);
	end_piece(&s, &s.sink);
	ib_free_cq(s.cq);
no_cq:
	ib_dealloc_pd(s.pd);
	return err;
}

static int result = -ENODEV;

static int add(struct ib_device *dev)
{
	if (!device || strcmp(dev_name(&dev->dev), device))
		return -EOPNOTSUPP;
	result = run(dev);
	return 0;
}

static void leave(struct ib_device *dev, void *data)
{
}

static struct ib_client client = { .name = "mrx_kverbs", .add = add, .remove = leave };

static int __init kverbs_init(void)
{
	int err = ib_register_client(&client);

	if (err)
		return err;
	ib_unregister_client(&client);
	return result;
}

static void __exit kverbs_exit(void)
{
}

module_init(kverbs_init);
module_exit(kverbs_exit);
MODULE_DESCRIPTION("a user of verbs in the kernel, for the self-tests of mrx");
MODULE_LICENSE("GPL");
