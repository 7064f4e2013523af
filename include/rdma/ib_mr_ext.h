/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions that are created with attributes and filled later.
 *
 * Exported by ib_mrx.ko.
 */
#ifndef IB_MR_EXT_H
#define IB_MR_EXT_H

#include <linux/types.h>

struct ib_device;
struct ib_mr;
struct ib_pd;
struct ib_sge;

/**
 * enum ib_mr_reg_type - what a region will consist of
 * @IB_MR_REG_DIRECT: memory, given by ib_map_mr_sg() and an IB_WR_REG_MR work request
 * @IB_MR_REG_INDIRECT: pieces of other regions, given by a layout
 */
enum ib_mr_reg_type {
	IB_MR_REG_DIRECT,
	IB_MR_REG_INDIRECT,
};

/**
 * enum ib_mr_create_flags - properties of a region that cannot change later
 * @IB_MR_SIGNATURE_EN: the region can check and generate signatures
 */
enum ib_mr_create_flags {
	IB_MR_SIGNATURE_EN = 1 << 0,
};

/**
 * struct ib_mr_init_attr - how to create a region
 * @reg_type: what it will consist of
 * @max_reg_descriptors: the most pages or pieces that it will consist of
 * @flags: a set of enum ib_mr_create_flags
 */
struct ib_mr_init_attr {
	enum ib_mr_reg_type reg_type;
	int max_reg_descriptors;
	u32 flags;
};

/**
 * enum ib_mr_layout_flags - how a layout is set
 * @IB_MR_LAYOUT_WITH_POST_WR: it becomes active when a bind work request
 *	(opcode IB_WR_RESERVED1, the region's lkey in the first SGE) executes
 * @IB_MR_LAYOUT_AVOID_INVALIDATION: fail with -ESTALE rather than change the keys
 */
enum ib_mr_layout_flags {
	IB_MR_LAYOUT_WITH_POST_WR = 1 << 0,
	IB_MR_LAYOUT_AVOID_INVALIDATION = 1 << 1,
};

/**
 * struct ib_mr_dimension - a dimension of an interleaved layout
 * @offset_stride: bytes from the start of a datum to the start of the next
 * @datum_count: data along this dimension
 */
struct ib_mr_dimension {
	u64 offset_stride;
	u64 datum_count;
};

/**
 * struct ib_mr_interleaved - an entry of an interleaved layout
 * @addr: the first datum, in the addressing of its region
 * @length: bytes of each datum
 * @lkey: the region
 * @num_repeated: data that each turn takes
 * @num_dimensions: entries of @dims
 * @dims: the dimensions, innermost first
 */
struct ib_mr_interleaved {
	u64 addr;
	u32 length;
	u32 lkey;
	u32 num_repeated;
	u32 num_dimensions;
	const struct ib_mr_dimension *dims;
};

/**
 * struct ib_mr_ext_ops - what a driver does to take part
 * @create_mr: make a region that ib_dereg_mr() can end, counted on its domain as
 *	ib_alloc_mr() does it; the attributes have been checked
 * @set_layout_sg: see ib_mr_set_layout_sg(); NULL if the device has no layouts
 * @set_layout_interleaved: see ib_mr_set_layout_interleaved(); NULL as above
 *
 * All are called in process context and may sleep.
 */
struct ib_mr_ext_ops {
	struct ib_mr *(*create_mr)(struct ib_pd *pd,
				   const struct ib_mr_init_attr *attr);
	int (*set_layout_sg)(struct ib_mr *mr, u32 flags, u32 num_sge,
			     const struct ib_sge *sg_list);
	int (*set_layout_interleaved)(struct ib_mr *mr, u32 flags, u32 num,
				      const struct ib_mr_interleaved *list);
};

/**
 * ib_register_mr_ext - give a device extension operations
 * @device: the device, before its consumers know of it
 * @ops: the operations, which must outlive the registration
 *
 * Return: 0; -EEXIST if the device has some; -EINVAL without @create_mr; -ENOMEM.
 */
int ib_register_mr_ext(struct ib_device *device, const struct ib_mr_ext_ops *ops);

/**
 * ib_unregister_mr_ext - take the extension operations away
 * @device: the device, after its consumers have let go of it
 */
void ib_unregister_mr_ext(struct ib_device *device);

/**
 * ib_create_mr - create a memory region with attributes
 * @pd: protection domain of the region
 * @attr: what the region is to be
 *
 * On a device without extension operations, direct regions are made with
 * ib_alloc_mr() (with IB_MR_SIGNATURE_EN: ib_alloc_mr_integrity()) and indirect
 * ones are not available.
 *
 * Context: process, may sleep.
 * Return: the region; -EINVAL for an unknown type or flag, and for a number of
 * descriptors that is not positive or above the device's limit; -EOPNOTSUPP for
 * an indirect region on a device that has none; -ENOSYS where the device has
 * nothing to make a region with; -ENOMEM.
 */
struct ib_mr *ib_create_mr(struct ib_pd *pd, const struct ib_mr_init_attr *attr);

/**
 * ib_destroy_mr - destroy a region of ib_create_mr()
 * @mr: the region
 *
 * Context: process, may sleep.
 * Return: 0; -EBUSY, and nothing has changed, if something still uses the region.
 */
int ib_destroy_mr(struct ib_mr *mr);

/**
 * ib_mr_set_layout_sg - make an indirect region the concatenation of ranges
 * @mr: the region; its lkey and rkey are updated if they change
 * @flags: a set of enum ib_mr_layout_flags
 * @num_sge: how many ranges
 * @sg_list: ranges of other regions of the same domain
 *
 * A region that was made in the kernel grants what all regions of its layout
 * grant.
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL for an empty list or range, an unknown flag, or numbers that
 * overflow; -ENOENT for an unknown lkey; -EPERM for a region of another domain;
 * -ELOOP for the region itself; -EFAULT for bytes outside of a region; -EBUSY if
 * a layout refers to @mr; -ESTALE if keys would change against @flags;
 * -EOPNOTSUPP above a limit or on a device without layouts; -ENOMEM. After an
 * error nothing has changed.
 */
int ib_mr_set_layout_sg(struct ib_mr *mr, u32 flags, u32 num_sge,
			const struct ib_sge *sg_list);

/**
 * ib_mr_set_layout_interleaved - make an indirect region of patterns, in turn
 * @mr: as for ib_mr_set_layout_sg()
 * @flags: as for ib_mr_set_layout_sg()
 * @num: how many entries
 * @list: the entries
 *
 * Context: process, may sleep.
 * Return: as ib_mr_set_layout_sg().
 */
int ib_mr_set_layout_interleaved(struct ib_mr *mr, u32 flags, u32 num,
				 const struct ib_mr_interleaved *list);

#endif /* IB_MR_EXT_H */
