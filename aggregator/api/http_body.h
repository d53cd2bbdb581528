/*
 * aggregator/api/http_body.h - checks and reads the JSON bodies of requests to the HTTP API. A
 * table has the members of a body with their types and limits. A member that is invalid or not in
 * the table is refused, and the message names it. Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_API_HTTP_BODY_H
#define MRD_AGGREGATOR_API_HTTP_BODY_H

#include "aggregator/core/model/core.h"
#include "base/conf/json.h"

typedef enum {
    MRD_BODY_TEXT,
    MRD_BODY_BOOL,
    MRD_BODY_INT, /* an integer between min and max */
    /* a duration between min and max: text with a unit, or a number of nanoseconds */
    MRD_BODY_DUR,
    MRD_BODY_LIST, /* a list with elements that the caller checks */
    MRD_BODY_OBJECT,
    MRD_BODY_ANY, /* a parameter of a session, checked by its row in proto/session_params.def */
} mrd_body_type;

typedef struct {
    const char *name;
    mrd_body_type type;
    int64_t min, max;
} mrd_body_member;

/* The members that a request's body may have: to start a session, for a trigger, and for requests
 * without members. The last entry of each table has the name NULL. */
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
/* Converts a body to a change of a session's cores or event types. The caller zeroes `change`
 * first, and frees it also after an error. Errors: INVALID, RANGE, TYPE, LIMIT, NOMEM. */
mrd_err mrd_http_change_request(mrd_json *body, mrd_session_change *change, mrd_why *why);
/* Reads the body of a trigger: the reason, and for how many ns before the trigger events are to be
 * kept. *ret_reason points into the body. */
mrd_err mrd_http_trigger_request(mrd_json *body, mrd_dur_ns *ret_last, const char **ret_reason,
                                 mrd_why *why);

#endif
