// SPDX-License-Identifier: GPL-2.0
/* Tracepoints are macros and static branches, so that the crate calls these functions. */
#include "helpers.h"

#define CREATE_TRACE_POINTS
#include "mrx_trace.h"

void mrx_trace_page_fault(unsigned long addr, unsigned long pages, bool write, long result)
{
	trace_mrx_page_fault(addr, pages, write, result);
}

void mrx_trace_page_prefetch(unsigned long addr, unsigned long pages, bool write, long result)
{
	trace_mrx_page_prefetch(addr, pages, write, result);
}

void mrx_trace_page_invalidate(unsigned long start, unsigned long end, unsigned long given_up)
{
	trace_mrx_page_invalidate(start, end, given_up);
}
