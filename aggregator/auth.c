#include "aggregator/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/json.h"

typedef struct {
    char digest[MRD_SHA256_HEX];
    mrd_role role;
    char *instance; /* agent tokens; NULL: any */
} auth_token;

struct mrd_auth {
    auth_token *tokens;
    size_t n;
};

enum { TOKEN_MIN = 16, TOKEN_MAX = 1024, TOKENS_MAX = 10000 };

static bool
token_digest(mrd_str token, char digest[MRD_SHA256_HEX])
{
    mrd_sha256 *sha = mrd_sha256_new();

    if (sha == NULL)
        return false;
    mrd_sha256_add(sha, token.p, token.len);
    mrd_sha256_hex(sha, digest);
    mrd_sha256_free(sha);
    return true;
}

static mrd_err
token_add(mrd_auth *auth, mrd_role role, const char *token, const char *instance, mrd_why *why)
{
    auth_token *t, *tokens;

    if (token == NULL)
        return mrd_why_set(why, MRD_TYPE, 0, "a %s token is not text", mrd_role_text(role));
    if (strlen(token) < TOKEN_MIN || strlen(token) > TOKEN_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "a %s token has %zu characters: %d to %d are allowed",
                           mrd_role_text(role), strlen(token), TOKEN_MIN, TOKEN_MAX);
    if (auth->n >= TOKENS_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "more than %d tokens", TOKENS_MAX);
    if ((tokens = realloc(auth->tokens, (auth->n + 1) * sizeof(*tokens))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "tokens");
    auth->tokens = tokens;
    t = &tokens[auth->n];
    *t = (auth_token){ .role = role };
    if (!token_digest(mrd_str_of(token), t->digest))
        return mrd_why_set(why, MRD_NOMEM, 0, "tokens");
    auth->n++;
    if (instance != NULL && (t->instance = mrd_str_dup(mrd_str_of(instance))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "tokens");
    return MRD_OK;
}

static mrd_err
token_list(mrd_auth *auth, const mrd_json *doc, mrd_role role, mrd_why *why)
{
    const mrd_json *list = mrd_json_get(doc, mrd_role_text(role));
    mrd_err err = MRD_OK;

    if (list == NULL)
        return MRD_OK;
    if (!mrd_json_is_array(list))
        return mrd_why_set(why, MRD_TYPE, 0, "'%s' must be a list", mrd_role_text(role));
    for (size_t i = 0; i < mrd_json_size(list) && err == MRD_OK; i++) {
        const mrd_json *item = mrd_json_at(list, i);
        char scratch[64];
        mrd_str text;

        if (mrd_json_is_object(item))
            err = token_add(auth, role, mrd_json_str(item, "token", NULL),
                            mrd_json_str(item, "instance", NULL), why);
        else if (mrd_json_text(item, scratch, &text) == MRD_OK)
            err = token_add(auth, role, text.p, NULL, why);
        else
            err = token_add(auth, role, NULL, NULL, why);
    }
    return err;
}

mrd_err
mrd_auth_load(const char *path, mrd_auth **ret_auth, mrd_why *why)
{
    mrd_auth *auth = NULL;
    mrd_json *doc = NULL;
    struct stat st;
    mrd_err err;

    if (stat(path, &st) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "token file %s", path);
    /* A group may read: that is how a service manager or Kubernetes hands a file to one user. */
    if ((st.st_mode & 037) != 0)
        return mrd_why_set(
            why, MRD_DENIED, 0,
            "token file %s may be read by everybody, or written by its group: chmod 600 it", path);
    if ((err = mrd_json_load(path, &doc, why)) != MRD_OK)
        return err;
    auth = calloc(1, sizeof(*auth));
    if (auth == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
    else if (!mrd_json_is_object(doc))
        err = mrd_why_set(why, MRD_TYPE, 0, "%s: expected an object with read, control and agent",
                          path);
    for (mrd_role role = MRD_ROLE_READ; role <= MRD_ROLE_AGENT && err == MRD_OK; role++) {
        if ((err = token_list(auth, doc, role, why)) != MRD_OK)
            mrd_why_prefix(why, err, "%s", path);
    }
    mrd_json_free(doc);
    if (err != MRD_OK)
        mrd_auth_free(auth);
    else
        *ret_auth = auth;
    return err;
}

void
mrd_auth_free(mrd_auth *auth)
{
    if (auth == NULL)
        return;
    for (size_t i = 0; i < auth->n; i++)
        free(auth->tokens[i].instance);
    free(auth->tokens);
    free(auth);
}

/* Digests are compared whole: the time tells nothing about where they differ. */
static bool
digest_equal(const char *a, const char *b)
{
    unsigned char diff = 0;

    for (size_t i = 0; i < MRD_SHA256_HEX - 1; i++)
        diff |= (unsigned char) (a[i] ^ b[i]);
    return diff == 0;
}

mrd_role
mrd_auth_role(const mrd_auth *auth, mrd_str token)
{
    char digest[MRD_SHA256_HEX];
    mrd_role role = MRD_ROLE_NONE;

    if (token.len == 0 || !token_digest(token, digest))
        return MRD_ROLE_NONE;
    for (size_t i = 0; i < auth->n; i++) {
        if (digest_equal(auth->tokens[i].digest, digest))
            role = auth->tokens[i].role;
    }
    return role;
}

bool
mrd_auth_agent(const mrd_auth *auth, mrd_str token, mrd_str instance)
{
    char digest[MRD_SHA256_HEX];
    bool ok = false;

    if (token.len == 0 || !token_digest(token, digest))
        return false;
    for (size_t i = 0; i < auth->n; i++) {
        const auth_token *t = &auth->tokens[i];

        ok |= digest_equal(t->digest, digest) && t->role == MRD_ROLE_AGENT &&
              (t->instance == NULL || mrd_str_is(instance, t->instance));
    }
    return ok;
}

bool
mrd_role_allows(mrd_role have, mrd_role need)
{
    if (need == MRD_ROLE_NONE || have == need)
        return true;
    return have == MRD_ROLE_CONTROL && need == MRD_ROLE_READ;
}

const char *
mrd_role_text(mrd_role role)
{
    static const char *const names[] = { "none", "read", "control", "agent" };

    return (unsigned) role < 4 ? names[role] : "none";
}
