/*
 * aggregator/clock_report.h - what is known about the clocks of a session's directory: per node,
 * boot and epoch estimate, bound, noise, stamp source and quality, the packets that contradict it,
 * and what the node knows about its own clocks. As a table, JSON, or a picture. For GET …/clocks
 * and `meridian clocks`.
 *
 * Threads  stateless; a report belongs to one thread.
 */
#ifndef MRD_AGGREGATOR_CLOCK_REPORT_H
#define MRD_AGGREGATOR_CLOCK_REPORT_H

#include "aggregator/timeline.h"
#include "base/json.h"

typedef struct {
    char *id;
    mrd_node_clock clock;
} mrd_clock_node;

typedef struct {
    mrd_clock_node *v; /* by id; brought to the timeline */
    size_t n, cap;
    mrd_timeline timeline;
} mrd_clock_report;

/* Reads the nodes of a session's directory that `only` names (all when it is empty). Before the
 * session was merged whole, only they say how incarnations of the aggregator are linked. Errors:
 * NOTFOUND when there is none, those of mrd_node_clock_load. */
mrd_err mrd_clock_report_read(const char *session_dir, const mrd_strlist *only,
                              mrd_clock_report *ret_report, mrd_why *why);
void mrd_clock_report_fini(mrd_clock_report *report);
/* Appends the table, then the assumptions and checks of each clock. Failures show in to->err. */
void mrd_clock_report_text(const mrd_clock_report *report, mrd_buf *to);
/* {"nodes": [...], "timeline": [...], "violations": n}, an entry per node and boot, and one per
 * incarnation of the aggregator. NULL without memory. */
mrd_json *mrd_clock_report_json(const mrd_clock_report *report);
uint64_t mrd_clock_report_violations(const mrd_clock_report *report);

#endif
