/* SPDX-License-Identifier: GPL-2.0 */
/* Processes of a test. */
#ifndef FORK_TIED_H
#define FORK_TIED_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * fork(), of a child that does not outlive its parent: it has the parent's file of
 * the device, and the objects of a test that gave up would stay.
 */
static inline pid_t fork_tied(void)
{
	pid_t parent = getpid(), pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
	}
	return pid;
}

#endif
