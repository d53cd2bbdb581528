/*
 * cli/client_config.h - which aggregator and which token, when the command line says nothing.
 *
 * /etc/meridian/client.json (MERIDIAN_CLIENT_CONFIG names another file), a JSON object with the names
 * of options: {"server": "https://head:7780", "ca-file": "/etc/meridian/ca.pem", "token-file":
 * "/shared/meridian/owner/{uid}"}; {uid} is the number of the user. It says where a token is sent, so
 * it must be root's or the user's own, and nobody else may write it.
 *
 * A token file that nobody named is sent to that server only, or to this machine when there is no
 * such file. The first of these that is there and the user's: token-file of it,
 * ~/.config/meridian/token, /run/meridian/owner/UID (what the prolog of a job writes).
 * Threads: none.
 */
#ifndef MRD_CLI_CLIENT_CONFIG_H
#define MRD_CLI_CLIENT_CONFIG_H

#include "base/err.h"

#define MRD_CLIENT_SERVER "http://127.0.0.1:7780"

typedef struct {
    char *server, *token_file, *ca_file; /* owned; the last two NULL: none */
} mrd_client_place;

/* The three as options name them; what is NULL is filled in. Errors: of the file, with its path;
 * DENIED: others may write it; NOMEM. */
mrd_err mrd_client_place_find(const char *server, const char *token_file, const char *ca_file,
                              mrd_client_place *ret_place, mrd_why *why);
void mrd_client_place_fini(mrd_client_place *place);

#endif
