#include "aggregator/oidc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>

#include "aggregator/jwt.h"
#include "base/error_list.h"
#include "base/near.h"
#include "base/obj.h"
#include "base/secret.h"
#include "base/threads.h"
#include "base/url.h"

#define REFRESH      (15 * 60 * MRD_SEC)
#define AGAIN        (10 * MRD_SEC) /* between two fetches, whatever tokens ask for */
#define OLD          (24 * 3600 * MRD_SEC)
#define LEEWAY       (30 * MRD_SEC)
#define SETTINGS_MAX (1u << 20)

struct mrd_oidc {
    mrd_json *settings; /* immutable: the texts below are its */
    const char *jwks, *ca_file, *bearer_file, *user_claim, *uid_claim, *roles_claim;
    const mrd_json *users, *roles;
    bool service_accounts;
    mrd_jwt_rule rule;
    mrd_error_list errors;
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* guards all below; nothing is taken inside */
    pthread_cond_t wake;
    bool stopping, wanted;
    mrd_jwks *keys;
    mrd_local_ns fetched, tried; /* 0: never */
};

/* ---- Settings ---- */

static const char *const members[] = { "issuer",           "audience",    "jwks",  "ca-file",
                                       "bearer-file",      "user-claim",  "users", "uid-claim",
                                       "service-accounts", "roles-claim", "roles" };

static mrd_err
known_members(mrd_json *o, const char *path, mrd_why *why)
{
    for (void *it = mrd_json_iter(o); it != NULL; it = mrd_json_iter_next(o, it)) {
        const char *key = mrd_json_iter_key(it), *near;
        bool known = false;

        for (size_t i = 0; i < MRD_COUNT(members); i++)
            known |= strcmp(key, members[i]) == 0;
        near = known ? NULL : mrd_nearest(key, members, MRD_COUNT(members));
        if (!known)
            return mrd_why_set(why, MRD_INVALID, 0, "%s: unknown member '%.64s'%s%s", path, key,
                               near == NULL ? "" : ": did you mean ", near == NULL ? "" : near);
    }
    return MRD_OK;
}

/* A text that must be there, or may. */
static mrd_err
text_of(const mrd_json *o, const char *name, bool must, const char *path, const char **ret_text,
        mrd_why *why)
{
    *ret_text = mrd_json_str(o, name, NULL);
    if (mrd_json_get(o, name) == NULL ? must : *ret_text == NULL || **ret_text == '\0')
        return mrd_why_set(why, MRD_INVALID, 0, "%s: '%s' must be text", path, name);
    return MRD_OK;
}

/* Keys that anybody on the way can replace prove nothing. */
static mrd_err
check_url(const char *url, const char *path, mrd_why *why)
{
    mrd_url u;

    if (mrd_url_parse(url, &u) != MRD_OK || u.has_user || u.host.len == 0 ||
        !(mrd_url_is(&u, "https") || (mrd_url_is(&u, "http") && mrd_url_is_loopback(&u))))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s: 'jwks' must be an address with https:// (http:// to this machine)",
                           path);
    return MRD_OK;
}

static mrd_err
settings_read(mrd_oidc *o, const char *path, mrd_why *why)
{
    mrd_json *d = o->settings;
    mrd_err err;

    if (!mrd_json_is_object(d))
        return mrd_why_set(why, MRD_TYPE, 0, "%s: expected an object", path);
    if ((err = known_members(d, path, why)) != MRD_OK ||
        (err = text_of(d, "issuer", true, path, &o->rule.issuer, why)) != MRD_OK ||
        (err = text_of(d, "audience", true, path, &o->rule.audience, why)) != MRD_OK ||
        (err = text_of(d, "jwks", true, path, &o->jwks, why)) != MRD_OK ||
        (err = text_of(d, "ca-file", false, path, &o->ca_file, why)) != MRD_OK ||
        (err = text_of(d, "bearer-file", false, path, &o->bearer_file, why)) != MRD_OK ||
        (err = text_of(d, "user-claim", false, path, &o->user_claim, why)) != MRD_OK ||
        (err = text_of(d, "uid-claim", false, path, &o->uid_claim, why)) != MRD_OK ||
        (err = text_of(d, "roles-claim", false, path, &o->roles_claim, why)) != MRD_OK ||
        (err = check_url(o->jwks, path, why)) != MRD_OK)
        return err;
    o->rule.leeway = LEEWAY;
    o->users = mrd_json_get(d, "users");
    o->roles = mrd_json_get(d, "roles");
    o->service_accounts = mrd_json_bool(d, "service-accounts", false);
    if ((o->users != NULL && !mrd_json_is_object(o->users)) ||
        (o->roles != NULL && !mrd_json_is_object(o->roles)))
        return mrd_why_set(why, MRD_INVALID, 0, "%s: 'users' and 'roles' must be objects", path);
    if (o->user_claim == NULL && o->uid_claim == NULL && o->roles_claim == NULL &&
        !o->service_accounts)
        return mrd_why_set(why, MRD_INVALID, 0,
                           "%s: name the claim that identifies a user or a role: user-claim, "
                           "uid-claim, roles-claim or service-accounts",
                           path);
    return MRD_OK;
}

/* It decides who is an administrator. */
static mrd_err
settings_load(mrd_oidc *o, const char *path, mrd_why *why)
{
    struct stat st;
    mrd_err err;

    if (stat(path, &st) != 0)
        return mrd_why_set(why, MRD_NOTFOUND, errno, "--oidc %s", path);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022) != 0)
        return mrd_why_set(why, MRD_DENIED, 0,
                           "--oidc %s decides who may do what, but others than root and this user "
                           "may write it",
                           path);
    err = mrd_json_load_up_to(path, SETTINGS_MAX, &o->settings, why);
    return err != MRD_OK ? err : settings_read(o, path, why);
}

/* ---- Keys ---- */

static size_t
take(char *data, size_t size, size_t n, void *self)
{
    mrd_buf *to = self;

    if (to->len + size * n > MRD_JWKS_MAX)
        return 0;
    mrd_buf_add(to, data, size * n);
    return to->err == MRD_OK ? size * n : 0;
}

/* What is sent to prove who fetches; the caller wipes it by freeing. */
static mrd_err
bearer(const mrd_oidc *o, struct curl_slist **ret_headers, mrd_why *why)
{
    mrd_buf line = { 0 };
    char *token = NULL;
    mrd_err err = mrd_secret_read("bearer-file", o->bearer_file, &token, why);

    if (err != MRD_OK)
        return err;
    if (mrd_buf_room(&line, strlen(token) + 64))
        mrd_buf_fmt(&line, "Authorization: Bearer %s", token);
    if (strpbrk(token, " \t\r\n") != NULL)
        err = mrd_why_set(why, MRD_SYNTAX, 0, "bearer-file holds more than one word");
    else if ((*ret_headers = curl_slist_append(NULL, mrd_buf_cstr(&line))) == NULL)
        err = mrd_why_set(why, MRD_NOMEM, 0, "keys");
    if (line.p != NULL)
        explicit_bzero(line.p, line.cap);
    mrd_buf_fini(&line);
    mrd_secret_free(token);
    return err;
}

static mrd_err
fetch(const mrd_oidc *o, mrd_jwks **ret_keys, mrd_why *why)
{
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = NULL;
    char detail[CURL_ERROR_SIZE] = "";
    mrd_buf body = { 0 };
    CURLcode code;
    long status = 0;
    mrd_err err = curl == NULL ? mrd_why_set(why, MRD_NOMEM, 0, "keys") : MRD_OK;

    if (err == MRD_OK && o->bearer_file != NULL)
        err = bearer(o, &headers, why);
    if (err != MRD_OK)
        goto out;
    curl_easy_setopt(curl, CURLOPT_URL, o->jwks);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "meridian/" MRD_RELEASE);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    if (headers != NULL)
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (o->ca_file != NULL)
        curl_easy_setopt(curl, CURLOPT_CAINFO, o->ca_file);
    code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK)
        err = mrd_why_set(why, MRD_NET, 0, "%s: %s", o->jwks,
                          detail[0] != '\0' ? detail : curl_easy_strerror(code));
    else if (status != 200)
        err = mrd_why_set(why, MRD_NET, 0, "%s answers with status %ld", o->jwks, status);
    else if ((err = mrd_jwks_parse((mrd_str){ (const char *) body.p, body.len }, ret_keys, why)) !=
             MRD_OK)
        mrd_why_prefix(why, err, "%s", o->jwks);
out:
    for (struct curl_slist *h = headers; h != NULL; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    mrd_buf_fini(&body);
    return err;
}

/* Until when there is nothing to fetch. Lock held. */
static int64_t
next_fetch(const mrd_oidc *o)
{
    int64_t due = o->fetched.ns == 0 ? 0 : o->fetched.ns + REFRESH;

    if (o->wanted)
        due = 0;
    return o->tried.ns == 0 ? 0 : due > o->tried.ns + AGAIN ? due : o->tried.ns + AGAIN;
}

static void *
fetch_loop(void *self)
{
    mrd_oidc *o = self;

    pthread_mutex_lock(&o->lock);
    while (!o->stopping) {
        int64_t now = mrd_local_now().ns, left = next_fetch(o) - now;
        mrd_jwks *keys = NULL, *old = NULL;
        struct timespec until;
        mrd_why why = { 0 };
        mrd_err err;

        if (left > 0) {
            until = mrd_cond_deadline(left);
            pthread_cond_timedwait(&o->wake, &o->lock, &until);
            continue;
        }
        pthread_mutex_unlock(&o->lock);
        err = fetch(o, &keys, &why);
        if (err != MRD_OK)
            mrd_error_list_add(&o->errors, err, why.text);
        pthread_mutex_lock(&o->lock);
        o->tried = mrd_local_now();
        if (err == MRD_OK) {
            old = o->keys;
            o->keys = keys;
            o->fetched = o->tried;
            o->wanted = false;
        }
        mrd_jwks_free(old);
    }
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

mrd_err
mrd_oidc_open(const char *path, mrd_oidc **ret_oidc, mrd_why *why)
{
    mrd_oidc *o = calloc(1, sizeof(*o));
    mrd_err err;

    if (o == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "--oidc");
    pthread_mutex_init(&o->lock, NULL);
    mrd_cond_init(&o->wake);
    mrd_error_list_init(&o->errors);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    if ((err = settings_load(o, path, why)) == MRD_OK) {
        o->runs = mrd_masked_thread(&o->thread, NULL, fetch_loop, o) == 0;
        if (!o->runs)
            err = mrd_why_set(why, MRD_NOMEM, 0, "--oidc: no thread");
    }
    if (err != MRD_OK)
        mrd_oidc_close(o);
    else
        *ret_oidc = o;
    return err;
}

void
mrd_oidc_close(mrd_oidc *oidc)
{
    if (oidc == NULL)
        return;
    pthread_mutex_lock(&oidc->lock);
    oidc->stopping = true;
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

bool
mrd_oidc_next_error(mrd_oidc *oidc, mrd_why *ret_why)
{
    return mrd_error_list_take(&oidc->errors, ret_why);
}

/* ---- Who ---- */

/* Whether the claim, a text or a list of texts, has one of the group's names. */
static bool
has_one(const mrd_json *claim, const mrd_json *names)
{
    bool list = mrd_json_is_array(claim);
    size_t n = list ? mrd_json_size(claim) : 1;
    char scratch[64], other[64];
    mrd_str have, want;

    for (size_t i = 0; i < n && mrd_json_is_array(names); i++) {
        const mrd_json *v = list ? mrd_json_at(claim, i) : claim;

        if (mrd_json_type_of(v) != MRD_JSON_TEXT || mrd_json_text(v, scratch, &have) != MRD_OK)
            continue;
        for (size_t k = 0; k < mrd_json_size(names); k++)
            if (mrd_json_text(mrd_json_at(names, k), other, &want) == MRD_OK &&
                mrd_str_eq(have, want))
                return true;
    }
    return false;
}

static mrd_role
role_of(const mrd_oidc *o, const mrd_json *claims)
{
    static const mrd_role roles[] = { MRD_ROLE_ADMIN, MRD_ROLE_OPERATOR, MRD_ROLE_READ };
    const mrd_json *claim = o->roles_claim == NULL ? NULL : mrd_json_get(claims, o->roles_claim);

    for (size_t i = 0; claim != NULL && o->roles != NULL && i < MRD_COUNT(roles); i++)
        if (has_one(claim, mrd_json_get(o->roles, mrd_role_text(roles[i]))))
            return roles[i];
    return MRD_ROLE_NONE;
}

/* A name as job identities have it, whole. */
static bool
put_name(const char *text, char *to, size_t size)
{
    size_t n = text == NULL ? 0 : strlen(text);

    if (n == 0 || n >= size)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char) text[i] <= ' ' || text[i] == 0x7f)
            return false;
    memcpy(to, text, n + 1);
    return true;
}

static bool
put_namespace(const char *subject, char *to, size_t size)
{
    static const char prefix[] = "system:serviceaccount:";
    const char *space = subject + sizeof(prefix) - 1, *colon;
    char name[64];

    if (strncmp(subject, prefix, sizeof(prefix) - 1) != 0 || (colon = strchr(space, ':')) == NULL ||
        colon[1] == '\0' || (size_t) (colon - space) >= sizeof(name))
        return false;
    memcpy(name, space, (size_t) (colon - space));
    name[colon - space] = '\0';
    return put_name(name, to, size);
}

/* Everything that the settings ask for must be there. */
static mrd_err
owner_of(const mrd_oidc *o, const mrd_json *claims, mrd_caller *to, mrd_why *why)
{
    const char *user = o->user_claim == NULL ? NULL : mrd_json_str(claims, o->user_claim, NULL);

    if (user != NULL && o->users != NULL)
        user = mrd_json_str(o->users, user, NULL);
    if (o->user_claim != NULL && !put_name(user, to->user, sizeof(to->user)))
        return mrd_why_set(why, MRD_AUTH, 0, "the token names no user that is known here");
    if (o->uid_claim != NULL) {
        to->uid = mrd_json_type_of(mrd_json_get(claims, o->uid_claim)) == MRD_JSON_INT
                      ? mrd_json_int(claims, o->uid_claim, -1)
                      : -1;
        if (to->uid < 0 || to->uid > UINT32_MAX)
            return mrd_why_set(why, MRD_AUTH, 0, "the token has no number of a user");
    }
    if (o->service_accounts &&
        !put_namespace(mrd_json_str(claims, "sub", ""), to->space, sizeof(to->space)))
        return mrd_why_set(why, MRD_AUTH, 0, "the token is of no service account");
    if (to->user[0] == '\0' && to->space[0] == '\0' && to->uid < 0)
        return mrd_why_set(why, MRD_AUTH, 0, "the token has no role here");
    to->role = MRD_ROLE_OWNER;
    return MRD_OK;
}

/* The claims of a token; asks for the keys when they are not there or it names another one. */
static mrd_err
prove(mrd_oidc *o, mrd_str token, mrd_json **ret_claims, mrd_why *why)
{
    int64_t now = mrd_local_now().ns;
    mrd_err err = MRD_AGAIN;

    pthread_mutex_lock(&o->lock);
    if (o->keys != NULL && now - o->fetched.ns < OLD)
        err = mrd_jwt_verify(token, o->keys, &o->rule, mrd_wall_now(), ret_claims, why);
    else
        mrd_why_set(why, err, 0, "the issuer's keys are not here yet");
    /* A key that came after the last fetch: after one more it is there, or is none. */
    if (err == MRD_AGAIN || (err == MRD_NOTFOUND && now - o->fetched.ns >= AGAIN)) {
        err = MRD_AGAIN;
        if (!o->wanted) {
            o->wanted = true;
            pthread_cond_signal(&o->wake);
        }
    }
    pthread_mutex_unlock(&o->lock);
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
    who.role = role_of(oidc, claims);
    if (who.role == MRD_ROLE_NONE)
        err = owner_of(oidc, claims, &who, why);
    mrd_json_free(claims);
    if (err == MRD_OK)
        *ret_caller = who;
    return err;
}
