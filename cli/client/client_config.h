/*
 * cli/client/client_config.h - default aggregator and token of the command line
 *
 * The configuration file is /etc/meridian/client.json, or the file that MERIDIAN_CLIENT_CONFIG
 * names. It is a JSON object with names of options: {"server": "https://head:7780", "ca-file":
 * "/etc/meridian/ca.pem", "token-file": "/shared/meridian/owner/{uid}"}. {uid} is replaced by the
 * user's id. The file decides where a token is sent. It must therefore belong to root or the user,
 * and must not be writable by others.
 *
 * If no token file is given, the first of these is used that exists and belongs to the user:
 *   - token-file of the configuration file
 *   - ~/.config/meridian/token
 *   - /run/meridian/owner/UID, which a job's prolog writes
 * This token is sent only to the server of the configuration file. Without that file, it is sent
 * only to this machine.
 *
 * Threads: one.
 */
#ifndef MRD_CLI_CLIENT_CLIENT_CONFIG_H
#define MRD_CLI_CLIENT_CLIENT_CONFIG_H

#include "base/err.h"

#define MRD_CLIENT_SERVER "http://127.0.0.1:7780"

typedef struct {
    /* owned; token_file and ca_file may be NULL, which means none */
    char *server, *token_file, *ca_file;
} mrd_client_place;

/* Copies the three options. An option that is NULL gets its value from the configuration file or
 * the defaults. Errors: errors of the file, with its path, DENIED if others may write it, NOMEM. */
mrd_err mrd_client_place_find(const char *server, const char *token_file, const char *ca_file,
                              mrd_client_place *ret_place, mrd_why *why);
void mrd_client_place_fini(mrd_client_place *place);

#endif
