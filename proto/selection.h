/*
 * proto/selection.h - decides which nodes and processes a selection (mrd_select) chooses.
 *
 * Each list chooses by one property, and an empty list chooses everything. An empty text in a list
 * of namespaces or clusters chooses processes without one. Threads: stateless.
 */
#ifndef MRD_PROTO_SELECTION_H
#define MRD_PROTO_SELECTION_H

#include "base/jobid.h"
#include "proto/session_params.h"

/* Limits of a node on the number of texts and the number of numbers in a list. */
#define MRD_SELECT_WORDS   1024
#define MRD_SELECT_NUMBERS 65536

/* Copies the lists of `from` into `*to`, which must be zeroed. NULL means everything. Errors:
 * LIMIT, NOMEM. *to must be freed in both cases. */
mrd_err mrd_select_from_wire(mrd_select *to, const Mrd__Selection *from);
void mrd_select_fini(mrd_select *s);
/* Returns true if only the nodes can decide whether something is chosen, because the selection
 * lists jobs, ranks or processes. */
bool mrd_select_is_partial(const mrd_select *selection);
/*
 * Returns whether job, user, namespace, cluster and run of `id` are chosen. `also` is a second name
 * of the job, or NULL.
 */
bool mrd_select_takes_job(const mrd_select *selection, const mrd_jobid *id, const char *also);
/* Returns whether the list is empty or contains the number. */
bool mrd_select_has_number(const mrd_strlist *list, int64_t number);

#endif
