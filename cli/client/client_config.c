#include "cli/client/client_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/conf/conf.h"
#include "base/obj.h"

#define CONFIG_FILE "/etc/meridian/client.json"
#define OWNER_DIR   "/run/meridian/owner"

typedef struct {
    char *server, *token_file, *ca_file;
} config;

static const mrd_opt rows[] = {
    { .name = "server", .type = MRD_OPT_STR, .offset = offsetof(config, server) },
    { .name = "token-file", .type = MRD_OPT_STR, .offset = offsetof(config, token_file) },
    { .name = "ca-file", .type = MRD_OPT_STR, .offset = offsetof(config, ca_file) },
};

/* Loads the configuration file if there is one. Refuses a file that others may write, because it
 * decides to which server tokens are sent. */
static mrd_err
load(config *c, mrd_why *why)
{
    const char *path = getenv("MERIDIAN_CLIENT_CONFIG");
    struct stat st;

    if (path == NULL || *path == '\0')
        path = CONFIG_FILE;
    if (stat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? MRD_OK
                   : mrd_why_set(why, MRD_DENIED, errno, "cannot read %s", path);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022) != 0)
        return mrd_why_set(why, MRD_DENIED, 0,
                           "%s says where tokens are sent, but others than root and you may write "
                           "it: chown root it, chmod 644",
                           path);
    return mrd_conf_file(rows, MRD_COUNT(rows), c, path, why);
}

/* Replaces {uid} in a path by the user's id. */
static char *
of_user(const char *path)
{
    const char *at = strstr(path, "{uid}");
    char *text = NULL;

    if (at == NULL)
        return mrd_str_dup(mrd_str_of(path));
    return asprintf(&text, "%.*s%u%s", (int) (at - path), path, (unsigned) geteuid(), at + 5) < 0
               ? NULL
               : text;
}

/* Returns true if the file belongs to the user and can be read. */
static bool
is_own(const char *path)
{
    struct stat st;

    return path != NULL && stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           access(path, R_OK) == 0;
}

static char *
find_token(const config *c)
{
    const char *home = getenv("HOME");
    char *places[3] = { NULL, NULL, of_user(OWNER_DIR "/{uid}") }, *found = NULL;

    if (c->token_file != NULL)
        places[0] = of_user(c->token_file);
    if (home != NULL && *home == '/' && asprintf(&places[1], "%s/.config/meridian/token", home) < 0)
        places[1] = NULL;
    for (size_t i = 0; i < MRD_COUNT(places); i++) {
        if (found == NULL && is_own(places[i]))
            found = places[i];
        else
            free(places[i]);
    }
    return found;
}

static char *
copy(const char *first, const char *second)
{
    const char *text = first != NULL ? first : second;

    return text == NULL ? NULL : mrd_str_dup(mrd_str_of(text));
}

mrd_err
mrd_client_place_find(const char *server, const char *token_file, const char *ca_file,
                      mrd_client_place *ret_place, mrd_why *why)
{
    mrd_client_place place = { 0 };
    config c = { 0 };
    mrd_err err = load(&c, why);
    const char *known = c.server != NULL ? c.server : MRD_CLIENT_SERVER;
    bool same = server == NULL || strcmp(server, known) == 0;

    if (err == MRD_OK) {
        place.server = copy(server, known);
        place.ca_file = copy(ca_file, same ? c.ca_file : NULL);
        place.token_file = copy(token_file, NULL);
        if (place.token_file == NULL && same)
            place.token_file = find_token(&c);
        if (place.server == NULL)
            err = mrd_why_set(why, MRD_NOMEM, 0, "client");
    }
    mrd_conf_fini(rows, MRD_COUNT(rows), &c);
    if (err != MRD_OK)
        mrd_client_place_fini(&place);
    else
        *ret_place = place;
    return err;
}

void
mrd_client_place_fini(mrd_client_place *place)
{
    free(place->server);
    free(place->token_file);
    free(place->ca_file);
    *place = (mrd_client_place){ 0 };
}
