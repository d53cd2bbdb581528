/*
 * aggregator/api/http_body.h - the JSON bodies of the HTTP API: their members with types and
 * limits. A member that is not in the table, or is invalid, is refused by name. Internal to
 * aggregator/.
 */
#ifndef MRD_AGGREGATOR_API_HTTP_BODY_H
#define MRD_AGGREGATOR_API_HTTP_BODY_H

#include "aggregator/core/model/core.h"
#include "base/conf/json.h"

typedef enum {
    MRD_BODY_TEXT,
    MRD_BODY_BOOL,
    MRD_BODY_INT, /* between min and max */
    /* a duration between min and max: text with a unit, or a number of nanoseconds */
    MRD_BODY_DUR,
    MRD_BODY_LIST, /* a list; the code that uses it checks its elements */
    MRD_BODY_OBJECT,
    MRD_BODY_ANY, /* a parameter of a session, checked by its row in proto/session_params.def */
} mrd_body_type;

typedef struct {
    const char *name;
    mrd_body_type type;
    int64_t min, max;
} mrd_body_member;

/* The allowed members of a body: to start a session, to trigger, and for requests without members.
 * Each table ends with a NULL name. */
extern const mrd_body_member mrd_http_session_members[], mrd_http_trigger_members[],
    mrd_http_no_members[];

/* Checks names, types and ranges of a body's members. Errors: INVALID (unknown member), TYPE,
 * RANGE. */
mrd_err mrd_http_body_check(mrd_json *body, const mrd_body_member *members, mrd_why *why);
/* Returns the duration `key` of a body that was already checked, or def if it is absent. */
mrd_dur_ns mrd_http_body_dur(const mrd_json *body, const char *key, mrd_dur_ns def);
/* Converts a body to a request for a new session. The caller zeroes `request` first, and frees it
 * also after an error. Errors: INVALID, RANGE, TYPE, LIMIT, NOMEM. */
mrd_err mrd_http_session_request(mrd_json *body, mrd_session_request *request, mrd_why *why);
/* Converts a body to a change of a running session: its cores or its event types. Ownership and
 * errors as in mrd_http_session_request. */
mrd_err mrd_http_change_request(mrd_json *body, mrd_session_change *change, mrd_why *why);
/* Reads the body of a trigger: how much past time to keep, and the reason. The reason's text
 * borrows from the body. */
mrd_err mrd_http_trigger_request(mrd_json *body, mrd_dur_ns *ret_last, const char **ret_reason,
                                 mrd_why *why);

#endif
