/*
 * cli/client/client_config.h - the default aggregator and token of the command line
 *
 * /etc/meridian/client.json (MERIDIAN_CLIENT_CONFIG names another file) is a JSON object with the
 * names of options: {"server": "https://head:7780", "ca-file": "/etc/meridian/ca.pem",
 * "token-file": "/shared/meridian/owner/{uid}"}. {uid} is the user's id. The file decides where a
 * token is sent, so it must belong to root or the user, and must not be writable by others.
 *
 * A default token file is sent only to the server of this file or, if there is no such file, to
 * this machine. It is the first of these that exists and belongs to the user: token-file of the
 * file, ~/.config/meridian/token, /run/meridian/owner/UID (written by the prolog of a job).
 * Threads: none.
 */
#ifndef MRD_CLI_CLIENT_CLIENT_CONFIG_H
#define MRD_CLI_CLIENT_CLIENT_CONFIG_H

#include "base/err.h"

#define MRD_CLIENT_SERVER "http://127.0.0.1:7780"

typedef struct {
    /* owned; token_file and ca_file may be NULL, which means none */
    char *server, *token_file, *ca_file;
} mrd_client_place;

/* Completes the three options: copies the given ones, and fills in the NULL ones from the file and
 * the defaults. Errors: errors of the file, with its path, DENIED if others may write it, NOMEM. */
mrd_err mrd_client_place_find(const char *server, const char *token_file, const char *ca_file,
                              mrd_client_place *ret_place, mrd_why *why);
void mrd_client_place_fini(mrd_client_place *place);

#endif
