/*
 * proto/selection.h - what a selection (mrd_select) means for a node and its processes.
 *
 * A list chooses by one property; an empty list chooses everything. An empty text in a list of
 * namespaces or clusters chooses processes that have none.
 * Threads: stateless.
 */
#ifndef MRD_PROTO_SELECTION_H
#define MRD_PROTO_SELECTION_H

#include "base/jobid.h"
#include "proto/session_params.h"

/* Most words in a list of texts, and most numbers in a list of numbers, that a node accepts. */
#define MRD_SELECT_WORDS   1024
#define MRD_SELECT_NUMBERS 65536

/* Copies the lists of `from`, NULL for everything, into the zeroed `*to`. Errors: LIMIT, NOMEM; *to must be freed in
 * both cases. */
mrd_err mrd_select_from_wire(mrd_select *to, const Mrd__Selection *from);
void mrd_select_fini(mrd_select *s);
/* Returns true if only nodes can tell whether they are chosen: jobs, ranks or processes are. */
bool mrd_select_is_partial(const mrd_select *s);
/*
 * Returns true if job, user, namespace, cluster and run of `id` are chosen. `also` is another name
 * by which the job may be chosen, or NULL.
 */
bool mrd_select_takes_job(const mrd_select *s, const mrd_jobid *id, const char *also);
/* Returns true if the list is empty or has the number. */
bool mrd_select_has_number(const mrd_strlist *list, int64_t number);

#endif
