/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests in C share.
 */
#ifndef KAPI_H
#define KAPI_H

#include <rdma/ib_mr_ext.h>
#include <rdma/ib_verbs.h>

#include "../frame.h"
#include "../scene.h"

#define KAPI_REGIONS 16
#define ALL_RIGHTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ)

/**
 * struct kapi - a test that runs
 * @scene: what it has
 * @regions: what it made, in this order
 * @count: how many
 * @failed: something was wrong
 */
struct kapi {
	struct scene *scene;
	struct ib_mr *regions[KAPI_REGIONS];
	unsigned int count;
	bool failed;
};

/**
 * struct kapi_test - a test
 * @name: what it shows
 * @where: the kinds of devices that it is for
 * @run: does it; may return at any point, and what it made is destroyed
 */
struct kapi_test {
	const char *name;
	enum kapi_kind where;
	void (*run)(struct kapi *kapi);
};

/* Each ends with an entry without a name. */
extern const struct kapi_test direct_tests[];
extern const struct kapi_test layout_tests[];
extern const struct kapi_test refusal_tests[];
extern const struct kapi_test bind_tests[];
extern const struct kapi_test driver_tests[];

/* Says that something is wrong. */
void kapi_fail(struct kapi *kapi, int line, const char *what, long long have);

/* Ends the test if the condition does not hold. */
#define CHECK(kapi, condition)						\
	do {								\
		if (!(condition)) {					\
			kapi_fail(kapi, __LINE__, #condition, 0);	\
			return;						\
		}							\
	} while (0)

/* Ends the test if the two numbers differ. */
#define EQUAL(kapi, want, have)						\
	do {								\
		long long _have = (have);				\
									\
		if (_have != (want)) {					\
			kapi_fail(kapi, __LINE__, #have, _have);	\
			return;						\
		}							\
	} while (0)

/* As the above, for functions that make something for the test. */
#define MADE(kapi, condition)						\
	({								\
		bool _good = (condition);				\
									\
		if (!_good)						\
			kapi_fail(kapi, __LINE__, #condition, 0);	\
		_good;							\
	})

/* Ends the test after something that was called has failed it. */
#define UNLESS_FAILED(kapi)						\
	do {								\
		if ((kapi)->failed)					\
			return;						\
	} while (0)

/* A region, which is destroyed at the end; NULL, and the test has failed. */
struct ib_mr *kapi_create(struct kapi *kapi, enum ib_mr_reg_type type, int descriptors);
/* An error of ib_create_mr(); 0 if the region could be made. */
int kapi_create_error(struct kapi *kapi, struct ib_mr_init_attr attr);
/* Destroys a region before the end. */
int kapi_destroy(struct kapi *kapi, struct ib_mr *mr);

/* A direct region of a whole buffer, with all rights; NULL, and the test has failed. */
struct ib_mr *kapi_direct(struct kapi *kapi, enum scene_side side);

/* Posts one request; its status, or a negative errno. */
int kapi_do(struct kapi *kapi, struct scene_step step);

/* A part of a buffer, through the region of all memory, or of a direct region of the buffer. */
struct ib_sge kapi_part(struct kapi *kapi, enum scene_side side, u64 offset, u32 length);
struct ib_sge kapi_part_of(struct kapi *kapi, const struct ib_mr *mr, enum scene_side side,
			   u64 offset, u32 length);

/* The first bytes of a region with a layout. */
struct ib_sge kapi_whole(const struct ib_mr *mr, u32 length);

/* Status of a write from @local to a place on the other side. */
int kapi_write(struct kapi *kapi, struct ib_sge local, u64 addr, u32 rkey);

/* Where the bytes of the target are those of the source: pairs of a place in each. */
struct kapi_move {
	u32 from;
	u32 to;
	u32 length;
};

/* Whether the target has these bytes of the source, and is as it was everywhere else. */
bool kapi_moved(struct kapi *kapi, const struct kapi_move *moves, unsigned int count);

#endif /* KAPI_H */
