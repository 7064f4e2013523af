/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory regions with layouts: one key over many ranges of other regions.
 *
 * The library behind this header, libmrx, stands on the public structures of
 * libibverbs, and works with every version of rdma-core. (mrx_create_mr() also
 * leaves room for what ibv_dereg_mr() looks for behind a struct ibv_mr.) Link
 * with -lmrx -libverbs.
 */
#ifndef INFINIBAND_MRX_H
#define INFINIBAND_MRX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/mrx_user_ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the device can do with layouts; all bits of cap_flags. */
enum ibv_mr_layout_cap_flags {
	IBV_MR_SET_LAYOUT_SG = MRX_LAYOUT_CAP_SG,
	IBV_MR_SET_LAYOUT_INTERLEAVED = MRX_LAYOUT_CAP_INTERLEAVED,
	/* num_repeated may be greater than one */
	IBV_MR_SET_LAYOUT_INTERLEAVED_REPEAT = MRX_LAYOUT_CAP_INTERLEAVED_REPEAT,
	/* num_repeated may differ between entries */
	IBV_MR_SET_LAYOUT_INTERLEAVED_NONUNIFORM_REPEAT =
		MRX_LAYOUT_CAP_INTERLEAVED_NONUNIFORM_REPEAT,
	/* entries may have different numbers of data */
	IBV_MR_SET_LAYOUT_INTERLEAVED_NONUNIFORM_DATUM_TOTAL =
		MRX_LAYOUT_CAP_INTERLEAVED_NONUNIFORM_DATUM_TOTAL,
};

struct ibv_mr_layout_caps {
	uint64_t cap_flags;			/* enum ibv_mr_layout_cap_flags */
	uint32_t max_num_sg;			/* entries of one SG layout */
	uint32_t max_inline_num_sg;		/* of them, without extra memory */
	uint32_t max_num_interleaved;		/* entries of one interleaved layout */
	uint32_t max_inline_num_interleaved;	/* of them, without extra memory */
	uint32_t max_mr_stride_dimension;	/* num_dimensions of one entry */
	uint32_t max_mr_nesting_level;		/* layouts over layouts */
};

enum ibv_mr_set_layout_flags {
	/*
	 * Stage the layout only. It becomes active when a work request with
	 * the opcode IBV_WR_BIND_MR executes.
	 */
	IBV_MR_SET_LAYOUT_WITH_POST_WR = MRX_SET_LAYOUT_WITH_POST_WR,
	/* Fail rather than give the region new keys. */
	IBV_MR_SET_LAYOUT_AVOID_INVALIDATION = MRX_SET_LAYOUT_AVOID_INVALIDATION,
	IBV_MR_SET_LAYOUT_FLAGS_SUPPORTED =
		IBV_MR_SET_LAYOUT_WITH_POST_WR |
		IBV_MR_SET_LAYOUT_AVOID_INVALIDATION,
};

/*
 * What the calls that set a layout return other than 0. In every case the
 * region keeps the layout and the keys that it had; errno says more.
 */
enum ibv_mr_set_layout_err_code {
	/* an argument is wrong */
	IBV_MR_SET_LAYOUT_ERR_INPUT = -1,
	/* the keys would change, and AVOID_INVALIDATION was given (ESTALE) */
	IBV_MR_SET_LAYOUT_ERR_WOULD_INVALIDATE = -2,
	/* the device lacks a capability that this needs (EOPNOTSUPP) */
	IBV_MR_SET_LAYOUT_ERR_UNSUPPORTED = -3,
};

struct ibv_mr_layout_interleaved_dimensions {
	uint64_t offset_stride;	/* bytes from the start of a datum to the next */
	uint64_t datum_count;	/* data in this dimension */
};

struct ibv_mr_layout_interleaved {
	/* where the first datum is, and how long each datum is */
	struct ibv_sge first_datum;
	/* data taken from this entry in each round over the entries */
	int num_repeated;
	int num_dimensions;
	/* dims[0] is the innermost */
	struct ibv_mr_layout_interleaved_dimensions *dims;
};

struct mrx_mr_init_attr {
	uint32_t type;			/* enum mrx_mr_type */
	uint32_t max_descriptors;	/* the most that a layout of it may have */
	uint32_t access;		/* enum ibv_access_flags */
	uint32_t flags;			/* enum mrx_mr_create_flags */
};

/* Read what the device can do. Returns 0 or an errno value. */
int ibv_query_mr_layout_caps(struct ibv_context *context,
			     struct ibv_mr_layout_caps *caps);

/*
 * Make mr the concatenation of the listed ranges, each of which lies in the
 * region that its lkey names. Returns 0 or enum ibv_mr_set_layout_err_code.
 * The keys in *mr are the valid ones when the call returns; with
 * IBV_MR_SET_LAYOUT_WITH_POST_WR they are those that the region will have once
 * the bind work request has executed.
 */
int ibv_mr_set_layout_sg(struct ibv_mr *mr, int flags, int num_sge,
			 struct ibv_sge *sg_list);

/*
 * Make mr a pattern: in rounds over the entries, num_repeated data are taken
 * from each, until all are used up. Returns as ibv_mr_set_layout_sg().
 */
int ibv_mr_set_layout_interleaved(struct ibv_mr *mr, int flags,
				  int num_interleaved,
				  struct ibv_mr_layout_interleaved *interleaved_list);

/*
 * Create a region with no memory of its own, to be filled by a layout. It ends
 * with ibv_dereg_mr(). Returns NULL and sets errno on failure.
 */
struct ibv_mr *mrx_create_mr(struct ibv_pd *pd,
			     const struct mrx_mr_init_attr *attr);

/*
 * Read the kind and the size of the layout of mr. Returns 0 or an errno value,
 * as do the two below.
 */
int mrx_query_layout(struct ibv_mr *mr, struct mrx_layout_info *info);

/*
 * Read an SG layout back. num_sge is the room in sg_list; ENOSPC if there are
 * more entries, EINVAL if the layout is of another kind.
 */
int mrx_query_layout_sg(struct ibv_mr *mr, uint32_t num_sge,
			struct ibv_sge *sg_list);

/*
 * Read an interleaved layout back. The dimensions of all entries share the
 * array dims, in order, and entries[i].dims points into it.
 */
int mrx_query_layout_interleaved(struct ibv_mr *mr, uint32_t num_entries,
				 struct ibv_mr_layout_interleaved *entries,
				 uint32_t num_dims,
				 struct ibv_mr_layout_interleaved_dimensions *dims);

/*
 * Give advice about ranges of regions that are paged on demand
 * (IBV_ACCESS_ON_DEMAND), or of layouts over such. The arguments and the value
 * are those of ibv_advise_mr(), which works only where the provider library has
 * an entry for it; librxe of many versions of rdma-core does not.
 */
int mrx_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		  uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge);

/*
 * The opcode that activates a staged layout. It is the first of the opcodes
 * which libibverbs leaves to drivers, so ibv_post_send() takes it. The region
 * is named by the lkey of the first SGE; address and length there are ignored.
 * Work requests behind it on the same queue pair see the new layout, the ones
 * before it see the old one. With nothing staged it completes with an error.
 */
#define IBV_WR_BIND_MR IBV_WR_DRIVER1

/* Fill in a work request that activates the layout staged for mr. */
static inline void mrx_prepare_bind_mr(struct ibv_send_wr *wr,
				       struct ibv_sge *sge,
				       const struct ibv_mr *mr)
{
	memset(wr, 0, sizeof(*wr));
	memset(sge, 0, sizeof(*sge));
	sge->lkey = mr->lkey;
	wr->opcode = IBV_WR_BIND_MR;
	wr->sg_list = sge;
	wr->num_sge = 1;
}

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_MRX_H */
