/*
 * proto/selection.h - decides which nodes and processes a session records, as chosen by the lists
 * of an mrd_select.
 *
 * Each list chooses by one property, and an empty list chooses everything. An empty text in a list
 * of namespaces or clusters chooses processes that have no namespace or cluster. Any thread may
 * call these functions.
 */
#ifndef MRD_PROTO_SELECTION_H
#define MRD_PROTO_SELECTION_H

#include "base/jobid.h"
#include "proto/session_params.h"

/* A node accepts at most this number of texts, and this number of numbers, in one list of a
 * selection. */
#define MRD_SELECT_WORDS   1024
#define MRD_SELECT_NUMBERS 65536

/* Copies the lists of `from` into `*to`, which must be zeroed. If `from` is NULL, `*to` chooses
 * everything. Errors: LIMIT, NOMEM. The caller must free *to even after an error. */
mrd_err mrd_select_from_wire(mrd_select *to, const Mrd__Selection *from);
void mrd_select_fini(mrd_select *s);
/* Returns true if the selection lists jobs, ranks or processes. Only the nodes can then decide what
 * is chosen. */
bool mrd_select_is_partial(const mrd_select *selection);
/*
 * Returns whether the selection chooses the job, user, namespace, cluster and run of `id`. `also`
 * is a second name of the job, or NULL.
 */
bool mrd_select_takes_job(const mrd_select *selection, const mrd_jobid *id, const char *also);
/* Returns whether the list contains the number or is empty. */
bool mrd_select_has_number(const mrd_strlist *list, int64_t number);

#endif
