/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What can be watched while it happens: /sys/kernel/tracing/events/mrx.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM mrx

#if !defined(MRX_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define MRX_TRACE_H

#include <linux/tracepoint.h>

/* Pages that were looked for; "result" is how many were found, or an errno. */
DECLARE_EVENT_CLASS(mrx_pages_sought,
	TP_PROTO(unsigned long addr, unsigned long pages, bool write, long result),
	TP_ARGS(addr, pages, write, result),
	TP_STRUCT__entry(
		__field(unsigned long, addr)
		__field(unsigned long, pages)
		__field(bool, write)
		__field(long, result)
	),
	TP_fast_assign(
		__entry->addr = addr;
		__entry->pages = pages;
		__entry->write = write;
		__entry->result = result;
	),
	TP_printk("addr=%#lx pages=%lu %s result=%ld", __entry->addr, __entry->pages,
		  __entry->write ? "write" : "read", __entry->result)
);

/* for a transfer */
DEFINE_EVENT(mrx_pages_sought, mrx_page_fault,
	TP_PROTO(unsigned long addr, unsigned long pages, bool write, long result),
	TP_ARGS(addr, pages, write, result)
);

/* because of an advice */
DEFINE_EVENT(mrx_pages_sought, mrx_page_prefetch,
	TP_PROTO(unsigned long addr, unsigned long pages, bool write, long result),
	TP_ARGS(addr, pages, write, result)
);

/* A change of mappings; "given_up" pages of it were known. */
TRACE_EVENT(mrx_page_invalidate,
	TP_PROTO(unsigned long start, unsigned long end, unsigned long given_up),
	TP_ARGS(start, end, given_up),
	TP_STRUCT__entry(
		__field(unsigned long, start)
		__field(unsigned long, end)
		__field(unsigned long, given_up)
	),
	TP_fast_assign(
		__entry->start = start;
		__entry->end = end;
		__entry->given_up = given_up;
	),
	TP_printk("start=%#lx end=%#lx given_up=%lu", __entry->start, __entry->end,
		  __entry->given_up)
);

#endif /* MRX_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE mrx_trace
#include <trace/define_trace.h>
