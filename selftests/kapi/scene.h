/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests have: on one device, a domain, two queue pairs that are
 * connected with each other, and two buffers that the device can reach.
 */
#ifndef KAPI_SCENE_H
#define KAPI_SCENE_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

#define SCENE_BUFFER (4 * PAGE_SIZE)

struct scene;

/* Which of the buffers. */
enum scene_side {
	SCENE_SOURCE,
	SCENE_TARGET,
};

/* What a request does. */
enum scene_op {
	/* from @local to @remote_addr, @rkey */
	SCENE_WRITE,
	/* from @remote_addr, @rkey to @local */
	SCENE_READ,
	/* from @local to @landing on the other side */
	SCENE_SEND,
	/* the pages of @mr, with @access */
	SCENE_REGISTER,
	/* what @rkey names */
	SCENE_INVALIDATE,
	/* the layout that waits on the region of @local.lkey */
	SCENE_BIND,
};

/**
 * struct scene_step - a work request
 * @op: what it does
 * @fenced: it waits for the reads before it
 * @local: where the bytes are, or go, on this side
 * @landing: where they go on the other side
 * @remote_addr: an address on the other side
 * @rkey: a region on the other side
 * @mr: a region to register
 * @access: what for
 */
struct scene_step {
	enum scene_op op;
	bool fenced;
	struct ib_sge local;
	struct ib_sge landing;
	u64 remote_addr;
	u32 rkey;
	struct ib_mr *mr;
	int access;
};

/**
 * scene_open - make a scene
 * @device: where
 *
 * Return: the scene or an error pointer.
 */
struct scene *scene_open(struct ib_device *device);

/**
 * scene_close - take it down; the regions are gone already
 * @scene: the scene
 *
 * Return: how many objects still used its domain.
 */
int scene_close(struct scene *scene);

struct ib_pd *scene_domain(const struct scene *scene);
/* Another domain on the same device. */
struct ib_pd *scene_stranger(const struct scene *scene);
/* How many objects use the domain. */
int scene_users(const struct scene *scene);

/* The bytes of a buffer, SCENE_BUFFER of them, and their address for the device. */
u8 *scene_bytes(const struct scene *scene, enum scene_side side);
u64 scene_address(const struct scene *scene, enum scene_side side);

/* Fills the source with bytes of which no two near ones are equal, and clears the target. */
void scene_fill(struct scene *scene);

/**
 * scene_map - give a direct region the pages of a buffer
 * @scene: the scene
 * @mr: the region
 * @side: the buffer
 *
 * The region has them once a SCENE_REGISTER step was done.
 *
 * Return: 0 or a negative errno.
 */
int scene_map(const struct scene *scene, struct ib_mr *mr, enum scene_side side);

/**
 * scene_do - post requests in one go and wait for them
 * @scene: the scene
 * @steps: the requests
 * @count: how many, at most SCENE_STEPS
 * @status: gets an enum ib_wc_status for each
 *
 * A receive of the other side whose bytes do not arrive counts as a failure of
 * its SCENE_SEND.
 *
 * Return: 0; -ETIMEDOUT if a completion does not come; another negative errno.
 */
int scene_do(struct scene *scene, const struct scene_step *steps, unsigned int count,
	     enum ib_wc_status *status);

#define SCENE_STEPS 16

/**
 * scene_break - put the queue pairs into the error state
 * @scene: the scene
 *
 * Return: 0 or a negative errno.
 */
int scene_break(struct scene *scene);

/**
 * scene_connect - connect the queue pairs, anew if they were
 * @scene: the scene
 *
 * Return: 0 or a negative errno.
 */
int scene_connect(struct scene *scene);

#endif /* KAPI_SCENE_H */
