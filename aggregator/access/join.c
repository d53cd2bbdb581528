#include "aggregator/access/join.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/conf/json.h"
#include "base/obj.h"
#include "base/sys/out.h"
#include "base/sys/secret.h"
#include "base/vec.h"

#define FILE_BYTES (16u << 20)

typedef struct {
    char hash[MRD_SHA256_HEX];
    char instance[MRD_CSR_INSTANCE]; /* instance that may use the invitation; "" means any */
    mrd_wall_ns end;
    /* hash of the public key in the request that used the invitation; "" means unused */
    char key[MRD_SHA256_HEX];
    char used[MRD_CSR_INSTANCE]; /* id of the instance (node) that used the invitation */
} invitation;

struct mrd_join {
    mrd_join_options o;
    char *path;
    pthread_mutex_t lock; /* guards the members below; no other lock is taken under it */
    mrd_signer *signer;
    uint64_t stamp;
    invitation *list;
    size_t n;
};

/* ---- The file of invitations ---- */

static bool
take_text(const mrd_json *json, const char *name, char *to, size_t size)
{
    const char *text = mrd_json_str(json, name, "");

    if (strlen(text) >= size)
        return false;
    memcpy(to, text, strlen(text) + 1);
    return true;
}

static mrd_err
file_read(mrd_join *join, mrd_why *why)
{
    mrd_json *doc = NULL;
    const mrd_json *list;
    mrd_err err;

    if (access(join->path, F_OK) != 0 && errno == ENOENT)
        return MRD_OK;
    if ((err = mrd_json_load_up_to(join->path, FILE_BYTES, &doc, why)) != MRD_OK)
        return err;
    list = mrd_json_is_object(doc) ? mrd_json_get(doc, "invitations") : NULL;
    if (!mrd_json_is_array(list) || mrd_json_size(list) > MRD_JOIN_INVITATIONS)
        err = mrd_why_set(why, MRD_CORRUPT, 0, "%s: expected at most %d 'invitations'", join->path,
                          MRD_JOIN_INVITATIONS);
    for (size_t i = 0; err == MRD_OK && i < mrd_json_size(list); i++) {
        const mrd_json *json = mrd_json_at(list, i);
        invitation v = { .hash = "" };

        if (!mrd_json_is_object(json) || !take_text(json, "hash", v.hash, sizeof(v.hash)) ||
            strlen(v.hash) != MRD_SHA256_HEX - 1 ||
            !take_text(json, "instance", v.instance, sizeof(v.instance)) ||
            !take_text(json, "key", v.key, sizeof(v.key)) ||
            !take_text(json, "used", v.used, sizeof(v.used))) {
            err = mrd_why_set(why, MRD_CORRUPT, 0,
                              "%s: invitation %zu cannot be read: remove the file, and invite "
                              "again the nodes that have no certificate yet",
                              join->path, i);
        } else if (!MRD_VEC_NEXT(join->list, join->n)) {
            err = mrd_why_set(why, MRD_NOMEM, 0, "%s", join->path);
        } else {
            v.end.ns = mrd_json_int(json, "end_ns", 0);
            join->list[join->n++] = v;
        }
    }
    mrd_json_free(doc);
    return err;
}

/* Writes the file of invitations. It is durable before any answer is sent, so that a used
 * invitation stays used after a crash. The caller holds the lock. */
static mrd_err
file_write(mrd_join *join, mrd_why *why)
{
    mrd_json *doc = mrd_json_new_object(), *list = mrd_json_new_array();
    mrd_buf text = { 0 };
    mrd_err err;

    for (size_t i = 0; i < join->n; i++) {
        const invitation *v = &join->list[i];
        mrd_json *json = mrd_json_new_object();

        mrd_json_set(json, "hash", mrd_json_new_str(v->hash));
        mrd_json_set(json, "instance", mrd_json_new_str(v->instance));
        mrd_json_set(json, "end_ns", mrd_json_new_int(v->end.ns));
        mrd_json_set(json, "key", mrd_json_new_str(v->key));
        mrd_json_set(json, "used", mrd_json_new_str(v->used));
        mrd_json_append(list, json);
    }
    mrd_json_set(doc, "invitations", list);
    mrd_json_write(doc, false, &text);
    mrd_json_free(doc);
    err = text.err != MRD_OK
              ? mrd_why_set(why, MRD_NOMEM, 0, "%s", join->path)
              : mrd_write_file_durable(join->path, (mrd_bytes){ text.p, text.len }, 0600, why);
    mrd_buf_fini(&text);
    return err;
}

/* Removes expired invitations. The caller holds the lock. */
static void
drop_ended(mrd_join *join)
{
    int64_t now = mrd_wall_now().ns;
    size_t kept = 0;

    for (size_t i = 0; i < join->n; i++)
        if (join->list[i].end.ns > now)
            join->list[kept++] = join->list[i];
    join->n = kept;
}

/* ---- Opening, closing and reloading ---- */

static uint64_t
stamp_of(const mrd_join *join)
{
    const char *files[] = { join->o.ca, join->o.key };

    return mrd_files_stamp(files, MRD_COUNT(files));
}

mrd_err
mrd_join_reload(mrd_join *join, mrd_why *why)
{
    uint64_t stamp = stamp_of(join);
    mrd_signer *signer = NULL, *old;
    mrd_err err = mrd_signer_open(join->o.ca, join->o.key, &signer, why);

    if (err != MRD_OK)
        return err;
    pthread_mutex_lock(&join->lock);
    old = join->signer;
    join->signer = signer;
    join->stamp = stamp;
    pthread_mutex_unlock(&join->lock);
    mrd_signer_close(old);
    return MRD_OK;
}

bool
mrd_join_changed(mrd_join *join)
{
    bool changed;

    pthread_mutex_lock(&join->lock);
    changed = stamp_of(join) != join->stamp;
    pthread_mutex_unlock(&join->lock);
    return changed;
}

mrd_err
mrd_join_open(const mrd_join_options *options, mrd_join **ret_join, mrd_why *why)
{
    mrd_join *join = calloc(1, sizeof(*join));
    mrd_buf path = { 0 };
    mrd_err err;

    if (join == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "--agent-ca");
    join->o = *options;
    pthread_mutex_init(&join->lock, NULL);
    mrd_buf_fmt(&path, "%s/invitations.json", options->store);
    mrd_buf_cstr(&path);
    join->path = (char *) path.p;
    err = path.err != MRD_OK ? mrd_why_set(why, MRD_NOMEM, 0, "--agent-ca")
                             : mrd_join_reload(join, why);
    if (err == MRD_OK)
        err = file_read(join, why);
    if (err != MRD_OK)
        mrd_join_close(join);
    else
        *ret_join = join;
    return err;
}

void
mrd_join_close(mrd_join *join)
{
    if (join == NULL)
        return;
    mrd_signer_close(join->signer);
    pthread_mutex_destroy(&join->lock);
    free(join->path);
    free(join->list);
    free(join);
}

/* ---- Invitations and signing ---- */

static bool
hash_of(mrd_str token, char hash[MRD_SHA256_HEX])
{
    mrd_sha256 *sha = token.len != MRD_JOIN_TOKEN - 1 ? NULL : mrd_sha256_new();

    if (sha == NULL)
        return false;
    mrd_sha256_add(sha, token.p, token.len);
    mrd_sha256_hex(sha, hash);
    mrd_sha256_free(sha);
    return true;
}

static void
token_make(char token[MRD_JOIN_TOKEN])
{
    uint8_t raw[(MRD_JOIN_TOKEN - 1) / 2];

    mrd_random(raw, sizeof(raw));
    for (size_t i = 0; i < sizeof(raw); i++)
        snprintf(token + 2 * i, 3, "%02x", raw[i]);
    explicit_bzero(raw, sizeof(raw));
}

mrd_err
mrd_join_invite(mrd_join *join, const char *instance, mrd_dur_ns life,
                char ret_token[MRD_JOIN_TOKEN], mrd_wall_ns *ret_end, mrd_why *why)
{
    invitation v = { .end = { mrd_wall_now().ns + life } };
    mrd_err err = MRD_OK;

    if (instance[0] != '\0' && !mrd_csr_name_ok(mrd_str_of(instance)))
        return mrd_why_set(why, MRD_INVALID, 0,
                           "'%.80s' cannot be an instance id in a certificate: letters, digits, "
                           "'.', '-' and '_', at most 64",
                           instance);
    memcpy(v.instance, instance, strlen(instance) + 1);
    token_make(ret_token);
    if (!hash_of(mrd_str_of(ret_token), v.hash))
        return mrd_why_set(why, MRD_NOMEM, 0, "invitation");
    pthread_mutex_lock(&join->lock);
    drop_ended(join);
    if (join->n >= MRD_JOIN_INVITATIONS)
        err = mrd_why_set(why, MRD_STATE, 0, "%d invitations have not ended yet",
                          MRD_JOIN_INVITATIONS);
    else if (!MRD_VEC_NEXT(join->list, join->n))
        err = mrd_why_set(why, MRD_NOMEM, 0, "invitation");
    else {
        join->list[join->n++] = v;
        if ((err = file_write(join, why)) != MRD_OK)
            join->n--;
    }
    pthread_mutex_unlock(&join->lock);
    *ret_end = v.end;
    return err;
}

/* Returns the invitation with this token, NULL if there is none. Always compares with all
 * invitations, so that the duration reveals nothing about them. The caller holds the lock. */
static invitation *
find(mrd_join *join, mrd_str token)
{
    char hash[MRD_SHA256_HEX];
    invitation *found = NULL;

    if (!hash_of(token, hash))
        return NULL;
    for (size_t i = 0; i < join->n; i++)
        if (mrd_secret_equal(join->list[i].hash, hash, MRD_SHA256_HEX - 1))
            found = &join->list[i];
    return found;
}

/* Checks that the invitation is valid for this instance and key. The caller holds the lock. */
static mrd_err
invited(const invitation *v, const char *instance, const char *key, mrd_why *why)
{
    if (v == NULL)
        return mrd_why_set(why, MRD_AUTH, 0,
                           "this is no invitation that the aggregator knows: meridian invite");
    if (v->end.ns <= mrd_wall_now().ns)
        return mrd_why_set(why, MRD_AUTH, 0, "the invitation has ended: meridian invite");
    if (v->instance[0] != '\0' && strcmp(v->instance, instance) != 0)
        return mrd_why_set(why, MRD_AUTH, 0, "the invitation is for another instance id");
    if (v->key[0] != '\0' && (strcmp(v->key, key) != 0 || strcmp(v->used, instance) != 0))
        return mrd_why_set(why, MRD_AUTH, 0,
                           "the invitation was used already, with another key: if not by this "
                           "node, another one has a certificate for '%s'",
                           v->used);
    return MRD_OK;
}

/* If the invitation was used, checks that no certificate for the request's key was revoked. A
 * revocation may mean that token and key are stolen, and a thief must not get a new certificate. */
static mrd_err
still_trusted(const mrd_join *join, const invitation *v, mrd_str request, mrd_why *why)
{
    mrd_err err = v->key[0] == '\0' ? MRD_OK : mrd_csr_revoked(request, join->o.authorities, why);

    return err == MRD_OK ? MRD_OK : mrd_why_prefix(why, err, "the invitation was used already");
}

/* Records the use of the invitation on disk before the certificate is sent. The caller holds the
 * lock. */
static mrd_err
note_use(mrd_join *join, invitation *v, const char *key, const char *instance, mrd_why *why)
{
    invitation before = *v;
    mrd_err err;

    memcpy(v->key, key, sizeof(v->key));
    memcpy(v->used, instance, strlen(instance) + 1);
    if ((err = file_write(join, why)) != MRD_OK)
        *v = before;
    return err;
}

mrd_err
mrd_join_sign(mrd_join *join, mrd_str token, const char *instance, mrd_str request, mrd_buf *to,
              mrd_why *why)
{
    char key[MRD_SHA256_HEX] = "";
    size_t before = to->len;
    invitation *v;
    mrd_err err;

    pthread_mutex_lock(&join->lock);
    v = find(join, token);
    if (v == NULL)
        err = invited(NULL, instance, key, why);
    else if ((err = mrd_csr_key_hash(request, key, why)) == MRD_OK &&
             (err = invited(v, instance, key, why)) == MRD_OK &&
             (err = still_trusted(join, v, request, why)) == MRD_OK)
        err = mrd_signer_sign(join->signer, request, instance, join->o.life, to, why);
    if (err == MRD_OK && (err = note_use(join, v, key, instance, why)) != MRD_OK)
        to->len = before;
    pthread_mutex_unlock(&join->lock);
    return err;
}

mrd_err
mrd_join_sign_proven(mrd_join *join, const char *instance, mrd_str request, mrd_buf *to,
                     mrd_why *why)
{
    mrd_err err;

    pthread_mutex_lock(&join->lock);
    err = mrd_signer_sign(join->signer, request, instance, join->o.life, to, why);
    pthread_mutex_unlock(&join->lock);
    return err;
}

mrd_err
mrd_join_renew(mrd_join *join, mrd_str cert, mrd_str request, mrd_buf *to,
               char ret_instance[MRD_CSR_INSTANCE], mrd_why *why)
{
    mrd_err err;

    pthread_mutex_lock(&join->lock);
    err = mrd_signer_holder(join->signer, cert, request, join->o.authorities, ret_instance, why);
    if (err == MRD_OK)
        err = mrd_signer_sign(join->signer, request, ret_instance, join->o.life, to, why);
    pthread_mutex_unlock(&join->lock);
    return err;
}
