/*
 * trace/sink/group.h - grouping of tracks for output (--system-trace-primary-group, -secondary-group).
 */
#ifndef MRD_TRACE_GROUP_H
#define MRD_TRACE_GROUP_H

#include "trace/model/sink.h"

/* Parses "instance_id,process_id". Errors: INVALID, with the wrong name and the valid ones, or for
 * a repetition. */
mrd_err mrd_group_parse(mrd_str text, mrd_group *ret_group, mrd_why *why);
/*
 * Appends the label of the track's group: "i-0abc / pid 4711", "NC 003 / tid 4712". Fields that the
 * track does not have are left out. A group without any field reads "-". Numbers are zero-padded to
 * three digits so that text order is number order.
 */
void mrd_group_label(const mrd_catalog *cat, const mrd_group *group, mrd_track_id track,
                     mrd_buf *to);
/* Compares two tracks by the group's fields (numbers as numbers); 0 means the same group. */
int mrd_group_order(const mrd_catalog *cat, const mrd_group *group, mrd_track_id id,
                    mrd_track_id track_id);

#endif
