/*
 * cli/session_options.h - what a session is asked for (proto/session_params.def) as options of
 * `meridian start` and `meridian record`, and as the body of the request. Threads: stateless.
 */
#ifndef MRD_CLI_SESSION_OPTIONS_H
#define MRD_CLI_SESSION_OPTIONS_H

#include "base/conf.h"
#include "proto/session_params.h"

/* The row of a command's table in whose place those of a mrd_session_request stand: `member` of its
 * settings. commands: MRD_PARAM_START or MRD_PARAM_RECORD. */
#define MRD_SESSION_OPTION_ROWS(settings, member, commands)                                        \
    {                                                                                              \
        .type = MRD_OPT_HEAD, .name = "session", .flags = (commands),                              \
        .offset = offsetof(settings, member), .help = "Session"                                    \
    }

/* The table with those rows: as many as were written, `room` at most. A parameter that the command
 * has a row for already keeps that one. */
size_t mrd_session_options(const mrd_opt *table, size_t n, mrd_opt *ret_table, size_t room);

/* Defaults of the parameters that the table has no row for, into zeroed settings. */
void mrd_session_options_init(const mrd_opt *table, size_t n, void *settings);

/* The body of POST /api/v1/sessions. */
mrd_json *mrd_session_request_json(const mrd_session_request *request);

#endif
