/*
 * trace/sink/group.h - grouping of tracks for output (--system-trace-primary-group, -secondary-group).
 */
#ifndef MRD_TRACE_GROUP_H
#define MRD_TRACE_GROUP_H

#include "trace/model/sink.h"

/* "instance_id,process_id" to fields. Errors: INVALID naming the word and the allowed ones, or a
 * repeat. */
mrd_err mrd_group_parse(mrd_str text, mrd_group *ret_group, mrd_why *why);
/*
 * Appends the label of the track's group: "i-0abc / pid 4711", "NC 003 / tid 4712". Fields the
 * track does not have are left out; a group without any field left reads "-". Numbers are
 * zero-padded to three digits so that text order is number order.
 */
void mrd_group_label(const mrd_catalog *cat, const mrd_group *group, mrd_track_id track,
                     mrd_buf *to);
/* Order of two tracks by the group's fields (numbers as numbers), 0 when they are in one group. */
int mrd_group_order(const mrd_catalog *cat, const mrd_group *group, mrd_track_id a, mrd_track_id b);

#endif
