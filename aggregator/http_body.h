/*
 * aggregator/http_body.h - the JSON bodies of the HTTP API: which members each may have, of which
 * type and between which bounds. What is not in the table, or not as it says, is refused with the
 * member's name. Inside aggregator/ only.
 */
#ifndef MRD_AGGREGATOR_HTTP_BODY_H
#define MRD_AGGREGATOR_HTTP_BODY_H

#include "aggregator/core/core.h"
#include "base/json.h"

typedef enum {
    MRD_BODY_TEXT,
    MRD_BODY_BOOL,
    MRD_BODY_INT,  /* between min and max */
    MRD_BODY_DUR,  /* text with a unit or a number of nanoseconds, between min and max */
    MRD_BODY_LIST, /* its elements are looked at by whoever reads them */
    MRD_BODY_OBJECT,
    MRD_BODY_ANY, /* of a session's parameter: its row says it (proto/session_params.def) */
} mrd_body_type;

typedef struct {
    const char *name;
    mrd_body_type type;
    int64_t min, max;
} mrd_body_member;

/* Of the body that starts a session, of a trigger's, of a change's, and none; each ends with a NULL
 * name. */
extern const mrd_body_member mrd_http_session_members[], mrd_http_trigger_members[],
    mrd_http_no_members[];

/* Errors: INVALID (unknown member), TYPE, RANGE. */
mrd_err mrd_http_body_check(mrd_json *body, const mrd_body_member *members, mrd_why *why);
/* A duration that was checked, or def. */
mrd_dur_ns mrd_http_body_dur(const mrd_json *body, const char *key, mrd_dur_ns def);
/* A session's request from its body. Errors: INVALID, RANGE, TYPE, LIMIT, NOMEM; r (zeroed before)
 * is to be freed in every case. */
mrd_err mrd_http_session_request(mrd_json *body, mrd_session_request *r, mrd_why *why);
/* A change's: which cores or event types; as above. */
mrd_err mrd_http_change_request(mrd_json *body, mrd_session_change *k, mrd_why *why);
/* A trigger's: how much is frozen and why; the text borrows from the body. */
mrd_err mrd_http_trigger_request(mrd_json *body, mrd_dur_ns *ret_last, const char **ret_reason,
                                 mrd_why *why);

#endif
