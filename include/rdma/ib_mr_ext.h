/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions that are created with attributes and filled later.
 *
 * Exported by ib_mrx.ko.
 */
#ifndef IB_MR_EXT_H
#define IB_MR_EXT_H

#include <linux/types.h>

struct ib_mr;
struct ib_pd;

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
 * ib_create_mr - create a memory region with attributes
 * @pd: protection domain of the region
 * @attr: what the region is to be
 *
 * On a device without extension operations, direct regions are made with
 * ib_alloc_mr() and indirect ones are not available.
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

#endif /* IB_MR_EXT_H */
