/*
 * trace/sink/group.h - groups tracks for output by fields such as node or process, as the options
 * --system-trace-primary-group and --system-trace-secondary-group request.
 */
#ifndef MRD_TRACE_GROUP_H
#define MRD_TRACE_GROUP_H

#include "trace/model/sink.h"

/* Parses a list of fields like "instance_id,process_id". Errors: INVALID for an unknown field, with
 * its name and the valid ones, and for a repeated field. */
mrd_err mrd_group_parse(mrd_str text, mrd_group *ret_group, mrd_why *why);
/*
 * Appends the label of the track's group, such as "i-0abc / pid 4711" or "NC 003 / tid 4712".
 * Fields that the track does not have are left out. The label of a group without any field is "-".
 * Numbers are zero-padded to three digits so that text order is number order.
 */
void mrd_group_label(const mrd_catalog *cat, const mrd_group *group, mrd_track_id track,
                     mrd_buf *to);
/* Compares two tracks by the fields of a group, and numeric fields by their numbers. 0 means that
 * both are in the same group. */
int mrd_group_order(const mrd_catalog *cat, const mrd_group *group, mrd_track_id a, mrd_track_id b);

#endif
