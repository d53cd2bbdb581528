/*
 * cli/client/session_options.h - the parameters of a session (proto/session_params.def) as options
 * of `meridian start` and `meridian record`, and as the body of the request. Threads: stateless.
 */
#ifndef MRD_CLI_CLIENT_SESSION_OPTIONS_H
#define MRD_CLI_CLIENT_SESSION_OPTIONS_H

#include "base/conf/conf.h"
#include "proto/session_params.h"

/* A placeholder row in a command's option table. mrd_session_options() replaces it by the rows of a
 * session's parameters. `member` is the mrd_session_request in the command's settings. `commands`
 * is MRD_PARAM_START or MRD_PARAM_RECORD. */
#define MRD_SESSION_OPTION_ROWS(settings, member, commands)                                        \
    {                                                                                              \
        .type = MRD_OPT_HEAD, .name = "session", .flags = (commands),                              \
        .offset = offsetof(settings, member), .help = "Session"                                    \
    }

/* Copies the table to ret_table, which has `room` rows, and replaces the placeholder. Returns the
 * number of rows. A parameter that has a row in the command's own table keeps that row. */
size_t mrd_session_options(const mrd_opt *table, size_t count, mrd_opt *ret_table, size_t room);

/* Sets the defaults of the parameters that have no row in the table. The settings must be
 * zeroed. */
void mrd_session_options_init(const mrd_opt *table, size_t n, void *settings);

/* Makes the JSON body of POST /api/v1/sessions from the request. */
mrd_json *mrd_session_request_json(const mrd_session_request *request);

#endif
