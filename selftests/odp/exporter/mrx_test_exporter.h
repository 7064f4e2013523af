/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Interface of the exporter that the self-tests move and revoke buffers with.
 */
#ifndef MRX_TEST_EXPORTER_H
#define MRX_TEST_EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* flags of a buffer */
#define MRX_TEST_NO_CPU (1 << 0) /* no vmap */
#define MRX_TEST_IOMEM (1 << 1) /* vmap says that it is device memory */
#define MRX_TEST_SLOW (1 << 2) /* CPU access takes a while to begin, or a signal ends that */

struct mrx_test_buffer {
	__u64 size;
	__u32 flags;
	__u32 fd;
};

struct mrx_test_state {
	__u32 fd;
	__u32 maps; /* since the buffer was made */
	__u32 begins, ends; /* of CPU access */
	__u32 moves;
	__u32 attachments; /* now */
};

/* on /dev/mrx_test_exporter */
#define MRX_TEST_CREATE _IOWR('x', 1, struct mrx_test_buffer)
#define MRX_TEST_MOVE _IOW('x', 2, __u32)
#define MRX_TEST_REVOKE _IOW('x', 3, __u32)
#define MRX_TEST_STATE _IOWR('x', 4, struct mrx_test_state)

#endif /* MRX_TEST_EXPORTER_H */
