/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note OR BSD-2-Clause */
/*
 * Userspace interface of the mrx memory-region features.
 *
 * All of it is reached through the uverbs ioctl tree: methods in the driver
 * namespace of UVERBS_OBJECT_MR and UVERBS_OBJECT_DEVICE. The handles are those
 * of the standard objects, so a region that was made here is destroyed with the
 * standard MR destroy method.
 */
#ifndef MRX_USER_IOCTL_H
#define MRX_USER_IOCTL_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

/* Methods of UVERBS_OBJECT_DEVICE. */
enum mrx_device_methods {
	MRX_METHOD_QUERY_CAPS = (1U << UVERBS_ID_NS_SHIFT),
	MRX_METHOD_SET_PEER_CONTEXT,
};

/* Methods of UVERBS_OBJECT_MR. */
enum mrx_mr_methods {
	MRX_METHOD_MR_CREATE = (1U << UVERBS_ID_NS_SHIFT),
	MRX_METHOD_MR_SET_LAYOUT_SG,
	MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED,
	MRX_METHOD_MR_QUERY_LAYOUT,
};

/* The attribute of MRX_METHOD_QUERY_CAPS: an out pointer, struct mrx_layout_caps. */
enum mrx_query_caps_attrs {
	MRX_ATTR_QUERY_CAPS_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

/*
 * The attribute of MRX_METHOD_SET_PEER_CONTEXT: an in pointer, struct
 * mrx_peer_context.
 */
enum mrx_set_peer_context_attrs {
	MRX_ATTR_SET_PEER_CONTEXT = (1U << UVERBS_ID_NS_SHIFT),
};

enum mrx_create_mr_attrs {
	/* new UVERBS_OBJECT_MR */
	MRX_ATTR_MR_CREATE_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* UVERBS_OBJECT_PD */
	MRX_ATTR_MR_CREATE_PD_HANDLE,
	/* const in, enum mrx_mr_type */
	MRX_ATTR_MR_CREATE_TYPE,
	/* in, __u32: the most descriptors that one layout of the region may have */
	MRX_ATTR_MR_CREATE_MAX_DESCRIPTORS,
	/* flags in, __u32: enum ib_uverbs_access_flags */
	MRX_ATTR_MR_CREATE_ACCESS,
	/* flags in, __u32: enum mrx_mr_create_flags */
	MRX_ATTR_MR_CREATE_FLAGS,
	/* out, __u32 */
	MRX_ATTR_MR_CREATE_RESP_LKEY,
	/* out, __u32 */
	MRX_ATTR_MR_CREATE_RESP_RKEY,
};

/*
 * Attributes of MRX_METHOD_MR_SET_LAYOUT_SG and
 * MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED.
 */
enum mrx_set_layout_attrs {
	/* UVERBS_OBJECT_MR: the region that receives the layout */
	MRX_ATTR_SET_LAYOUT_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* flags in, __u32: enum mrx_set_layout_flags */
	MRX_ATTR_SET_LAYOUT_FLAGS,
	/* in, struct mrx_user_list: of struct ib_uverbs_sge, or of struct mrx_interleaved */
	MRX_ATTR_SET_LAYOUT_LIST,
	/* in, struct mrx_user_list: of struct mrx_dimension (interleaved only) */
	MRX_ATTR_SET_LAYOUT_DIMENSIONS,
	/* out, __u32: the keys from now on */
	MRX_ATTR_SET_LAYOUT_RESP_LKEY,
	/* out, __u32 */
	MRX_ATTR_SET_LAYOUT_RESP_RKEY,
};

enum mrx_query_layout_attrs {
	/* UVERBS_OBJECT_MR */
	MRX_ATTR_QUERY_LAYOUT_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* out, struct mrx_layout_info */
	MRX_ATTR_QUERY_LAYOUT_INFO,
	/*
	 * in, struct mrx_user_list: room for the descriptors, which are of the
	 * type that the layout was set with; ENOSPC if there is too little
	 */
	MRX_ATTR_QUERY_LAYOUT_LIST,
	/* in, struct mrx_user_list: room for the dimensions */
	MRX_ATTR_QUERY_LAYOUT_DIMENSIONS,
};

enum mrx_mr_type {
	MRX_MR_TYPE_DIRECT,
	MRX_MR_TYPE_INDIRECT,
};

enum mrx_mr_create_flags {
	MRX_MR_CREATE_SIGNATURE_EN = 1 << 0,
};

enum mrx_set_layout_flags {
	/* the layout becomes active when a bind work request executes */
	MRX_SET_LAYOUT_WITH_POST_WR = 1 << 0,
	/* fail with ESTALE rather than change the keys */
	MRX_SET_LAYOUT_AVOID_INVALIDATION = 1 << 1,
};

enum mrx_layout_cap_flags {
	MRX_LAYOUT_CAP_SG = 1 << 0,
	MRX_LAYOUT_CAP_INTERLEAVED = 1 << 1,
	MRX_LAYOUT_CAP_INTERLEAVED_REPEAT = 1 << 2,
	MRX_LAYOUT_CAP_INTERLEAVED_NONUNIFORM_REPEAT = 1 << 3,
	MRX_LAYOUT_CAP_INTERLEAVED_NONUNIFORM_DATUM_TOTAL = 1 << 4,
};

enum mrx_layout_kind {
	MRX_LAYOUT_NONE,
	MRX_LAYOUT_SG,
	MRX_LAYOUT_INTERLEAVED,
};

struct mrx_layout_caps {
	__aligned_u64 cap_flags; /* enum mrx_layout_cap_flags */
	__u32 max_num_sg;
	__u32 max_inline_num_sg;
	__u32 max_num_interleaved;
	__u32 max_inline_num_interleaved;
	__u32 max_mr_stride_dimension;
	__u32 max_mr_nesting_level;
};

/*
 * An array in the memory of the caller. An attribute of the ioctl itself holds
 * at most 64 KiB, which is less than a layout may need.
 */
struct mrx_user_list {
	__aligned_u64 addr;
	__u32 count;
	__u32 entry_size; /* sizeof one entry, as the caller was built */
};

/* Dimension 0 is the innermost. Strides and counts are in bytes and data. */
struct mrx_dimension {
	__aligned_u64 offset_stride;
	__aligned_u64 datum_count;
};

/*
 * An entry of an interleaved layout. Its dimensions are the next
 * num_dimensions entries of the list of dimensions, which all entries of the
 * layout share, in order.
 */
struct mrx_interleaved {
	__aligned_u64 addr; /* of the first datum, in the addressing of its region */
	__u32 length; /* bytes of each datum */
	__u32 lkey;
	__u32 num_repeated;
	__u32 num_dimensions;
};

struct mrx_layout_info {
	__u32 kind; /* enum mrx_layout_kind */
	__u32 num_descriptors;
	__u32 num_dimensions;
	__u32 nesting_level;
	__aligned_u64 length; /* bytes that the region spans with this layout */
};

/*
 * Which peer-memory client the verbs context deals with, and by which number
 * that client knows the process.
 */
struct mrx_peer_context {
	__u8 name[64]; /* ended by a zero byte */
	__aligned_u64 id;
};

#endif /* MRX_USER_IOCTL_H */
