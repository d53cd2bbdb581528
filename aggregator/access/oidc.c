#include "aggregator/access/oidc.h"

#include <pthread.h>
#include <stdlib.h>

#include "aggregator/access/grants.h"
#include "aggregator/access/jwt.h"
#include "base/error_list.h"
#include "base/obj.h"
#include "base/sys/threads.h"
#include "proto/fetch.h"

#define REFRESH (15 * 60 * MRD_SEC)
#define AGAIN   (10 * MRD_SEC) /* minimum time between two fetches that unknown keys cause */
#define OLD     (24 * 3600 * MRD_SEC)
#define LEEWAY  (30 * MRD_SEC)

struct mrd_oidc {
    mrd_json *settings; /* immutable; owns the strings below */
    const char *jwks, *ca_file, *bearer_file, *user_claim, *uid_claim, *roles_claim;
    const mrd_json *users, *roles;
    bool service_accounts;
    mrd_jwt_rule rule;
    mrd_error_list errors;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* guards the members below; no other lock is taken under it */
    pthread_cond_t wake;
    /* `wanted`: the thread must fetch the keys. `now`: the thread must fetch them at once, without
     * the usual interval since the last attempt. */
    bool stopping, wanted, now;
    /* a copy of `stopping` that a running HTTP request of the thread reads without the lock */
    atomic_bool stopped;
    mrd_jwks *keys;
    /* times of the last successful fetch of the keys and of the last attempt; 0 means never */
    mrd_local_ns fetched, tried;
};

/* ---- The settings file ---- */

static const char *const members[] = { "issuer",           "audience",    "jwks",  "ca-file",
                                       "bearer-file",      "user-claim",  "users", "uid-claim",
                                       "service-accounts", "roles-claim", "roles" };

static mrd_err
settings_read(mrd_oidc *oidc, const char *path, mrd_why *why)
{
    mrd_json *json = oidc->settings;
    mrd_err err;

    if ((err = mrd_grants_text(json, "issuer", true, path, &oidc->rule.issuer, why)) != MRD_OK ||
        (err = mrd_grants_text(json, "audience", true, path, &oidc->rule.audience, why)) !=
            MRD_OK ||
        (err = mrd_grants_text(json, "jwks", true, path, &oidc->jwks, why)) != MRD_OK ||
        (err = mrd_grants_text(json, "ca-file", false, path, &oidc->ca_file, why)) != MRD_OK ||
        (err = mrd_grants_text(json, "bearer-file", false, path, &oidc->bearer_file, why)) !=
            MRD_OK ||
        (err = mrd_grants_text(json, "user-claim", false, path, &oidc->user_claim, why)) !=
            MRD_OK ||
        (err = mrd_grants_text(json, "uid-claim", false, path, &oidc->uid_claim, why)) != MRD_OK ||
        (err = mrd_grants_text(json, "roles-claim", false, path, &oidc->roles_claim, why)) !=
            MRD_OK ||
        (err = mrd_grants_url(oidc->jwks, "jwks", path, why)) != MRD_OK ||
        (err = mrd_grants_object(json, "users", path, &oidc->users, why)) != MRD_OK ||
        (err = mrd_grants_roles(json, path, &oidc->roles, why)) != MRD_OK)
        return err;
    oidc->rule.leeway = LEEWAY;
    oidc->service_accounts = mrd_json_bool(json, "service-accounts", false);
    if (oidc->user_claim == NULL && oidc->uid_claim == NULL && oidc->roles_claim == NULL &&
        !oidc->service_accounts)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s: name the claim that identifies a user or a role: user-claim, "
                           "uid-claim, roles-claim or service-accounts",
                           path);
    return MRD_OK;
}

/* ---- Fetching the issuer's keys ---- */

static mrd_err
fetch(const mrd_oidc *oidc, mrd_jwks **ret_keys, mrd_why *why)
{
    mrd_fetch_request request = { .url = oidc->jwks,
                                  .ca_file = oidc->ca_file,
                                  .bearer_file = oidc->bearer_file,
                                  .max = MRD_JWKS_MAX,
                                  .seconds = 10,
                                  .stopped = &oidc->stopped };
    mrd_buf body = { 0 };
    unsigned status;
    mrd_err err = mrd_fetch(&request, &body, &status, why);

    if (err == MRD_OK && status != 200)
        err = mrd_why_set(why, MRD_NET, 0, "%s answers with status %u", oidc->jwks, status);
    else if (err == MRD_OK && (err = mrd_jwks_parse((mrd_str){ (const char *) body.p, body.len },
                                                    ret_keys, why)) != MRD_OK)
        mrd_why_prefix(why, err, "%s", oidc->jwks);
    mrd_buf_fini(&body);
    return err;
}

/* Returns the time at which the issuer's keys are fetched next. The caller holds the lock. */
static int64_t
next_fetch(const mrd_oidc *oidc)
{
    int64_t due = oidc->fetched.ns == 0 ? 0 : oidc->fetched.ns + REFRESH;

    if (oidc->now)
        return 0;
    if (oidc->wanted)
        due = 0;
    return oidc->tried.ns == 0 ? 0 : due > oidc->tried.ns + AGAIN ? due : oidc->tried.ns + AGAIN;
}

static void *
fetch_loop(void *self)
{
    mrd_oidc *oidc = self;

    pthread_mutex_lock(&oidc->lock);
    while (!oidc->stopping) {
        int64_t now = mrd_local_now().ns, left = next_fetch(oidc) - now;
        mrd_jwks *keys = NULL, *old = NULL;
        struct timespec until;
        mrd_why why = { 0 };
        mrd_err err;

        if (left > 0) {
            until = mrd_cond_deadline(left);
            pthread_cond_timedwait(&oidc->wake, &oidc->lock, &until);
            continue;
        }
        oidc->now = false;
        pthread_mutex_unlock(&oidc->lock);
        err = fetch(oidc, &keys, &why);
        if (err != MRD_OK)
            mrd_error_list_add(&oidc->errors, err, why.text);
        pthread_mutex_lock(&oidc->lock);
        oidc->tried = mrd_local_now();
        if (err == MRD_OK) {
            old = oidc->keys;
            oidc->keys = keys;
            oidc->fetched = oidc->tried;
            oidc->wanted = false;
        }
        mrd_jwks_free(old);
    }
    pthread_mutex_unlock(&oidc->lock);
    return NULL;
}

mrd_err
mrd_oidc_open(const char *path, mrd_oidc **ret_oidc, mrd_why *why)
{
    mrd_oidc *oidc = calloc(1, sizeof(*oidc));
    mrd_err err;

    if (oidc == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "--oidc");
    pthread_mutex_init(&oidc->lock, NULL);
    mrd_cond_init(&oidc->wake);
    mrd_error_list_init(&oidc->errors);
    err = mrd_grants_load("--oidc", path, members, MRD_COUNT(members), &oidc->settings, why);
    if (err == MRD_OK)
        err = settings_read(oidc, path, why);
    if (err == MRD_OK) {
        oidc->runs = mrd_masked_thread(&oidc->thread, NULL, fetch_loop, oidc) == 0;
        if (!oidc->runs)
            err = mrd_why_set(why, MRD_NOMEM, 0, "--oidc: no thread");
    }
    if (err != MRD_OK)
        mrd_oidc_close(oidc);
    else
        *ret_oidc = oidc;
    return err;
}

void
mrd_oidc_close(mrd_oidc *oidc)
{
    if (oidc == NULL)
        return;
    pthread_mutex_lock(&oidc->lock);
    oidc->stopping = true;
    oidc->stopped = true;
    pthread_cond_signal(&oidc->wake);
    pthread_mutex_unlock(&oidc->lock);
    if (oidc->runs)
        pthread_join(oidc->thread, NULL);
    mrd_jwks_free(oidc->keys);
    mrd_json_free(oidc->settings);
    mrd_error_list_fini(&oidc->errors);
    pthread_cond_destroy(&oidc->wake);
    pthread_mutex_destroy(&oidc->lock);
    free(oidc);
}

void
mrd_oidc_refresh(mrd_oidc *oidc)
{
    pthread_mutex_lock(&oidc->lock);
    oidc->now = true;
    pthread_cond_signal(&oidc->wake);
    pthread_mutex_unlock(&oidc->lock);
}

const char *
mrd_oidc_issuer(const mrd_oidc *oidc)
{
    return oidc->rule.issuer;
}

bool
mrd_oidc_next_error(mrd_oidc *oidc, mrd_why *ret_why)
{
    return mrd_error_list_take(&oidc->errors, ret_why);
}

/* ---- Identifying the holder of a token ---- */

/* Stores attributes of the token's holder in *to, by which the holder's sessions are found. Takes
 * them from the claims. Each claim that the settings name must be present. */
static mrd_err
owner_of(const mrd_oidc *oidc, const mrd_json *claims, mrd_caller *to, mrd_why *why)
{
    const char *user =
        oidc->user_claim == NULL ? NULL : mrd_json_str(claims, oidc->user_claim, NULL);

    if (user != NULL && oidc->users != NULL)
        user = mrd_json_str(oidc->users, user, NULL);
    if (oidc->user_claim != NULL && !mrd_grants_name(user, to->user, sizeof(to->user)))
        return mrd_why_set(why, MRD_AUTH, 0, "the token names no user who is known here");
    if (oidc->uid_claim != NULL) {
        to->uid = mrd_json_type_of(mrd_json_get(claims, oidc->uid_claim)) == MRD_JSON_INT
                      ? mrd_json_int(claims, oidc->uid_claim, -1)
                      : -1;
        if (to->uid < 0 || to->uid > UINT32_MAX)
            return mrd_why_set(why, MRD_AUTH, 0, "the token contains no user id (uid-claim)");
    }
    if (oidc->service_accounts &&
        !mrd_grants_namespace(mrd_json_str(claims, "sub", ""), to->space, sizeof(to->space)))
        return mrd_why_set(why, MRD_AUTH, 0, "the token does not belong to a service account");
    if (to->user[0] == '\0' && to->space[0] == '\0' && to->uid < 0)
        return mrd_why_set(why, MRD_AUTH, 0, "the token grants no role");
    to->role = MRD_ROLE_OWNER;
    return MRD_OK;
}

/* Verifies a token and gets its claims. Requests a fetch if there are no keys, or if the token
 * names an unknown key. */
static mrd_err
prove(mrd_oidc *oidc, mrd_str token, mrd_json **ret_claims, mrd_why *why)
{
    int64_t now = mrd_local_now().ns;
    mrd_err err = MRD_AGAIN;

    pthread_mutex_lock(&oidc->lock);
    if (oidc->keys != NULL && now - oidc->fetched.ns < OLD)
        err = mrd_jwt_verify(token, oidc->keys, &oidc->rule, mrd_wall_now(), ret_claims, why);
    else
        mrd_why_set(why, err, 0, "the issuer's keys are not loaded yet: try again");
    /* The issuer may have added the key after the last fetch. With the error AGAIN the client
     * repeats its request after the next fetch, which will show whether the key exists. */
    if (err == MRD_AGAIN || (err == MRD_NOTFOUND && now - oidc->fetched.ns >= AGAIN)) {
        err = MRD_AGAIN;
        if (!oidc->wanted) {
            oidc->wanted = true;
            pthread_cond_signal(&oidc->wake);
        }
    }
    pthread_mutex_unlock(&oidc->lock);
    return err == MRD_OK || err == MRD_AGAIN ? err : MRD_AUTH;
}

mrd_err
mrd_oidc_identify(mrd_oidc *oidc, mrd_str token, mrd_caller *ret_caller, mrd_why *why)
{
    mrd_caller who = MRD_CALLER(MRD_ROLE_NONE);
    mrd_json *claims = NULL;
    mrd_err err = prove(oidc, token, &claims, why);

    if (err != MRD_OK)
        return err;
    if (oidc->roles_claim != NULL)
        who.role = mrd_grants_role(oidc->roles, mrd_json_get(claims, oidc->roles_claim));
    if (who.role == MRD_ROLE_NONE)
        err = owner_of(oidc, claims, &who, why);
    mrd_json_free(claims);
    if (err == MRD_OK)
        *ret_caller = who;
    return err;
}
