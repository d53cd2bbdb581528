/*
 * aggregator/api/http_body.h - the JSON bodies of the HTTP API: their members with types and limits. A
 * member that is not in the table, or is invalid, is refused by name. Internal to aggregator/.
 */
#ifndef MRD_AGGREGATOR_API_HTTP_BODY_H
#define MRD_AGGREGATOR_API_HTTP_BODY_H

#include "aggregator/core/model/core.h"
#include "base/conf/json.h"

typedef enum {
    MRD_BODY_TEXT,
    MRD_BODY_BOOL,
    MRD_BODY_INT,  /* between min and max */
    MRD_BODY_DUR,  /* text with a unit, or a number of nanoseconds, between min and max */
    MRD_BODY_LIST, /* its elements are checked by the code that uses them */
    MRD_BODY_OBJECT,
    MRD_BODY_ANY, /* a parameter of a session: its row in proto/session_params.def has the rules */
} mrd_body_type;

typedef struct {
    const char *name;
    mrd_body_type type;
    int64_t min, max;
} mrd_body_member;

/* The members of the body of a start, of a trigger, of a change, and of an empty body. Each table
 * ends with a NULL name. */
extern const mrd_body_member mrd_http_session_members[], mrd_http_trigger_members[],
    mrd_http_no_members[];

/* Errors: INVALID (unknown member), TYPE, RANGE. */
mrd_err mrd_http_body_check(mrd_json *body, const mrd_body_member *members, mrd_why *why);
/* Returns a duration that was checked, or def. */
mrd_dur_ns mrd_http_body_dur(const mrd_json *body, const char *key, mrd_dur_ns def);
/* Makes a session's request from its body. The caller zeroes `request` first and frees it in every case.
 * Errors: INVALID, RANGE, TYPE, LIMIT, NOMEM. */
mrd_err mrd_http_session_request(mrd_json *body, mrd_session_request *request, mrd_why *why);
/* Makes a change from its body: cores or event types. Ownership and errors as above. */
mrd_err mrd_http_change_request(mrd_json *body, mrd_session_change *change, mrd_why *why);
/* Reads the body of a trigger: the time to keep, and the reason. The text borrows from the body. */
mrd_err mrd_http_trigger_request(mrd_json *body, mrd_dur_ns *ret_last, const char **ret_reason,
                                 mrd_why *why);

#endif
