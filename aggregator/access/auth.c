#include "aggregator/access/auth.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/obj.h"
#include "base/sys/secret.h"
#include "base/vec.h"

typedef struct {
    char digest[MRD_SHA256_HEX];
    mrd_role role;
    char *instance; /* instance id for which the agent token is valid; NULL means any instance */
} auth_token;

typedef struct {
    auth_token *tokens;
    size_t n;
} auth_list;

struct mrd_auth {
    char *path;
    pthread_rwlock_t lock; /* guards `list` and `stamp`; no other lock is taken while it is held */
    auth_list list;
    uint64_t stamp;
};

enum { TOKEN_MIN = 16, TOKEN_MAX = 1024, TOKENS_MAX = 10000 };

bool
mrd_auth_digest(mrd_str token, char digest[MRD_SHA256_HEX])
{
    mrd_sha256 *sha = token.len < TOKEN_MIN || token.len > TOKEN_MAX ? NULL : mrd_sha256_new();

    if (sha == NULL)
        return false;
    mrd_sha256_add(sha, token.p, token.len);
    mrd_sha256_hex(sha, digest);
    mrd_sha256_free(sha);
    return true;
}

static mrd_err
token_add(auth_list *auth, mrd_role role, const char *token, const char *instance, mrd_why *why)
{
    auth_token *t;

    if (token == NULL)
        return mrd_why_set(why, MRD_TYPE, 0, "a %s token is not text", mrd_role_text(role));
    if (strlen(token) < TOKEN_MIN || strlen(token) > TOKEN_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "a %s token has %zu characters: %d to %d are allowed",
                           mrd_role_text(role), strlen(token), TOKEN_MIN, TOKEN_MAX);
    if (auth->n >= TOKENS_MAX)
        return mrd_why_set(why, MRD_LIMIT, 0, "more than %d tokens", TOKENS_MAX);
    if (!MRD_VEC_NEXT(auth->tokens, auth->n))
        return mrd_why_set(why, MRD_NOMEM, 0, "tokens");
    t = &auth->tokens[auth->n];
    *t = (auth_token){ .role = role };
    if (!mrd_auth_digest(mrd_str_of(token), t->digest))
        return mrd_why_set(why, MRD_NOMEM, 0, "tokens");
    auth->n++;
    if (instance != NULL && (t->instance = mrd_str_dup(mrd_str_of(instance))) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "tokens");
    return MRD_OK;
}

static mrd_err
token_list(auth_list *auth, const mrd_json *doc, const char *key, mrd_role role, mrd_why *why)
{
    const mrd_json *list = mrd_json_get(doc, key);
    mrd_err err = MRD_OK;

    if (list == NULL)
        return MRD_OK;
    if (!mrd_json_is_array(list))
        return mrd_why_set(why, MRD_TYPE, 0, "'%s' must be a list", key);
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

static void
list_free(auth_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->tokens[i].instance);
    free(list->tokens);
    *list = (auth_list){ 0 };
}

/* Lists in a token file and the roles that they give. */
static const struct {
    const char *key;
    mrd_role role;
} lists[] = { { "read", MRD_ROLE_READ },
              { "operator", MRD_ROLE_OPERATOR },
              { "admin", MRD_ROLE_ADMIN },
              { "control", MRD_ROLE_ADMIN },
              { "agent", MRD_ROLE_AGENT } };

static mrd_err
list_read(const mrd_json *doc, const char *path, auth_list *ret_list, mrd_why *why)
{
    auth_list list = { 0 };
    mrd_err err = MRD_OK;

    if (!mrd_json_is_object(doc))
        err = mrd_why_set(why, MRD_TYPE, 0,
                          "%s: expected an object with read, operator, admin and agent", path);
    for (size_t i = 0; i < MRD_COUNT(lists) && err == MRD_OK; i++) {
        if ((err = token_list(&list, doc, lists[i].key, lists[i].role, why)) != MRD_OK)
            mrd_why_prefix(why, err, "%s", path);
    }
    if (err != MRD_OK)
        list_free(&list);
    else
        *ret_list = list;
    return err;
}

static mrd_err
list_load(const char *path, auth_list *ret_list, mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_err err;

    if ((err = mrd_secret_check("token file", path, why)) != MRD_OK ||
        (err = mrd_json_load(path, &doc, why)) != MRD_OK)
        return err;
    err = list_read(doc, path, ret_list, why);
    mrd_json_free(doc);
    return err;
}

mrd_err
mrd_auth_reload(mrd_auth *auth, mrd_why *why)
{
    uint64_t stamp = mrd_files_stamp((const char *const *) &auth->path, 1);
    auth_list list = { 0 }, old;
    mrd_err err = list_load(auth->path, &list, why);

    if (err != MRD_OK)
        return err;
    pthread_rwlock_wrlock(&auth->lock);
    old = auth->list;
    auth->list = list;
    auth->stamp = stamp;
    pthread_rwlock_unlock(&auth->lock);
    list_free(&old);
    return MRD_OK;
}

bool
mrd_auth_changed(mrd_auth *auth)
{
    uint64_t stamp = mrd_files_stamp((const char *const *) &auth->path, 1);
    bool changed;

    pthread_rwlock_rdlock(&auth->lock);
    changed = stamp != auth->stamp;
    pthread_rwlock_unlock(&auth->lock);
    return changed;
}

static mrd_auth *
auth_new(const char *path, mrd_why *why)
{
    mrd_auth *auth = calloc(1, sizeof(*auth));

    if (auth == NULL || (auth->path = mrd_str_dup(mrd_str_of(path))) == NULL) {
        mrd_why_set(why, MRD_NOMEM, 0, "%s", path);
        free(auth);
        return NULL;
    }
    pthread_rwlock_init(&auth->lock, NULL);
    return auth;
}

mrd_err
mrd_auth_load(const char *path, mrd_auth **ret_auth, mrd_why *why)
{
    mrd_auth *auth = auth_new(path, why);
    mrd_err err = auth == NULL ? MRD_NOMEM : mrd_auth_reload(auth, why);

    if (err != MRD_OK)
        mrd_auth_free(auth);
    else
        *ret_auth = auth;
    return err;
}

mrd_err
mrd_auth_parse(mrd_str text, const char *name, mrd_auth **ret_auth, mrd_why *why)
{
    mrd_json *doc = NULL;
    mrd_err err = mrd_json_parse(text, name, &doc, why);
    mrd_auth *auth = err == MRD_OK ? auth_new(name, why) : NULL;

    if (err == MRD_OK)
        err = auth == NULL ? MRD_NOMEM : list_read(doc, name, &auth->list, why);
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
    list_free(&auth->list);
    pthread_rwlock_destroy(&auth->lock);
    free(auth->path);
    free(auth);
}

/* Compares two SHA-256 digests in constant time, so that the duration does not reveal where they
 * differ. */
static bool
token_is(const auth_token *token, const char digest[MRD_SHA256_HEX])
{
    return mrd_secret_equal(token->digest, digest, MRD_SHA256_HEX - 1);
}

/* Returns the lock of a const object without `const`. Taking the lock does not change the
 * tokens. */
static pthread_rwlock_t *
lock_of(const mrd_auth *auth)
{
    return &((mrd_auth *) (uintptr_t) auth)->lock;
}

mrd_role
mrd_auth_role(const mrd_auth *auth, mrd_str token)
{
    char digest[MRD_SHA256_HEX];
    mrd_role role = MRD_ROLE_NONE;

    if (!mrd_auth_digest(token, digest))
        return MRD_ROLE_NONE;
    pthread_rwlock_rdlock(lock_of(auth));
    for (size_t i = 0; i < auth->list.n; i++) {
        if (token_is(&auth->list.tokens[i], digest))
            role = auth->list.tokens[i].role;
    }
    pthread_rwlock_unlock(lock_of(auth));
    return role;
}

bool
mrd_auth_agent(const mrd_auth *auth, mrd_str token, mrd_str instance)
{
    char digest[MRD_SHA256_HEX];
    bool ok = false;

    if (!mrd_auth_digest(token, digest))
        return false;
    pthread_rwlock_rdlock(lock_of(auth));
    for (size_t i = 0; i < auth->list.n; i++) {
        const auth_token *t = &auth->list.tokens[i];

        ok |= token_is(t, digest) && t->role == MRD_ROLE_AGENT &&
              (t->instance == NULL || mrd_str_is(instance, t->instance));
    }
    pthread_rwlock_unlock(lock_of(auth));
    return ok;
}

const char *
mrd_role_text(mrd_role role)
{
    static const char *const names[] = { "none", "owner", "read", "operator", "admin", "agent" };

    return (unsigned) role < MRD_COUNT(names) ? names[role] : "none";
}
