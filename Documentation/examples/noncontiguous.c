// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * One region over every other word of an array, written to with one RDMA WRITE.
 * The queue pair talks to itself. After make install:
 * cc noncontiguous.c $(pkg-config --cflags --libs libmrx)
 */
#include <infiniband/mrx.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x) ((x) ? (void)0 : (perror(#x), exit(1)))
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static void connect_to_itself(struct ibv_qp *qp, int gid_index)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				  .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1,
				  .min_rnr_timer = 12,
				  .ah_attr = { .is_global = 1, .port_num = 1,
					       .grh.sgid_index = gid_index } };
	CHECK(!ibv_query_gid(qp->context, 1, gid_index, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14,
				  .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

int main(int argc, char **argv)
{
	static uint32_t words[8], ones[4] = { 1, 2, 3, 4 };
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_send_wr wr = {}, *bad;
	struct ibv_wc wc;

	CHECK(devices && *devices && (context = ibv_open_device(*devices)));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_mr *plain = ibv_reg_mr(pd, words, sizeof(words), ALL);
	struct ibv_mr *from = ibv_reg_mr(pd, ones, sizeof(ones), 0);
	/* a region without memory of its own, addressed from zero */
	struct ibv_mr *odd = ibv_reg_mr(pd, NULL, 0, ALL | IBV_ACCESS_ZERO_BASED);

	CHECK(qp && plain && from && odd);
	connect_to_itself(qp, argc > 1 ? atoi(argv[1]) : 1);

	struct ibv_sge ranges[4];
	for (int i = 0; i < 4; i++)
		ranges[i] = (struct ibv_sge){ (uintptr_t)&words[2 * i + 1], 4, plain->lkey };
	CHECK(!ibv_mr_set_layout_sg(odd, 0, 4, ranges));

	struct ibv_sge source = { (uintptr_t)ones, sizeof(ones), from->lkey };
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.sg_list = &source;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = 0;
	wr.wr.rdma.rkey = odd->rkey;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	CHECK(wc.status == IBV_WC_SUCCESS);
	for (int i = 0; i < 8; i++)
		printf("%u%c", words[i], i < 7 ? ' ' : '\n'); /* 0 1 0 2 0 3 0 4 */

	/* a region that a layout uses is deregistered after it */
	CHECK(!ibv_dereg_mr(odd) && !ibv_dereg_mr(plain) && !ibv_dereg_mr(from));
	return 0;
}
