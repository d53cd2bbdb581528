/*
 * aggregator/core/node/unread.h - data on a node that its agent does not read, such as rings or
 * trace files. The counts of events do not include it, so it is reported separately.
 */
#ifndef MRD_AGGREGATOR_CORE_NODE_UNREAD_H
#define MRD_AGGREGATOR_CORE_NODE_UNREAD_H

#include "aggregator/core/common/json.h"
#include "base/err.h"
#include "proto/wire.h"

typedef struct {
    uint32_t rings_beyond, rings_held, rings_other_boot, directories;
    /* number of trace files of a session that were not read completely */
    uint32_t trace_files;
    uint32_t trace_files_later; /* number of files in trace_files that were read completely later */
    /* name of the last file in trace_files, and why it was not read; may be empty */
    char trace_file[256];
} mrd_unread;

/* Replaces *unread by the numbers in the message `m`. If `m` is NULL, nothing is unread. */
void mrd_unread_take(mrd_unread *unread, const Mrd__Unread *m);
/* For a session, raises each number of *unread to the number in the message `m`, if it is higher.
 * Skips rings of an earlier boot, because they do not belong to the session. */
void mrd_unread_most(mrd_unread *unread, const Mrd__Unread *m);
/* Describes the unread data and suggests what to do. Returns false if there is none. */
bool mrd_unread_text(const mrd_unread *unread, char text[MRD_WHY_MAX]);
/* Puts the member "unread" into *to if there is unread data. */
void mrd_unread_put(const mrd_unread *unread, mrd_json *to);
void mrd_unread_load(mrd_unread *unread, const mrd_json *from); /* NULL empties *unread */

#endif
