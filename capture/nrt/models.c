/* Keeps the list of loaded models and the captures of models (mrd_models_* in meridian.h; features
 * D-07 to D-12 of docs/dev/seeds.md). */
#include "capture/api/api.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/nrt/models.h"
#include "capture/nrt/neffs.h"
#include "capture/process.h"
#include "capture/sha256.h"

#define MODELS_MAGIC 0x6d6f646cu
#define READ_CHUNK   65536u
/* maximum bytes of a copied model; larger models are listed without data */
#define COPY_MAX (1ull << 32)
#define BUCKETS  4096u /* a power of two */

/* One load of a model. The registry and captures share it. mrd_proc_lock_models protects it. */
typedef struct model {
    mrd_model_record rec;
    /* hash in hexadecimal, and path of the file with the kept bytes ("" if not kept) */
    char sha[65], kept[MRD_NEFFS_PATH];
    mrd_model_call call;
    char *uri;
    void *copy;
    unsigned refs;
    bool told; /* the load was recorded as an event */
    /* next model in the registry, and the pointer that points to this one */
    struct model *next, **link;
    struct model *next_of_bucket;
} model;

struct mrd_models {
    uint32_t magic;
    mrd_models_mode mode;
    uint64_t userdata;
    bool running;
    model **v;
    size_t n, cap;
    mrd_model_record *list; /* array that mrd_models_get returned last, which the next call frees */
    mrd_models *next;       /* next in the list of all captures */
};

/* The registry: a list of all loaded models, and a hash table by id. Both have newer models
 * first. */
static model *loaded, *buckets[BUCKETS];
static _Atomic uint64_t loads;
static mrd_models *captures;

static void
model_unref(model *m)
{
    if (m == NULL || --m->refs > 0)
        return;
    free(m->uri);
    free(m->copy);
    free(m);
}

/* ---- hashes and copies of models ------------------------------------------------------------- */

/* Stores the hash of a model's file and, with `copy`, its bytes. Returns false if the file cannot
 * be read. */
static bool
read_file(const char *path, model *m, bool copy)
{
    uint8_t *chunk = NULL;
    mrd_sha sha;
    struct stat st;
    size_t at = 0;
    ssize_t count;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return false;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (chunk = malloc(READ_CHUNK)) == NULL) {
        close(fd);
        return false;
    }
    m->rec.size = (uint64_t) st.st_size;
    if (copy && m->rec.size <= COPY_MAX)
        m->copy = malloc(m->rec.size > 0 ? m->rec.size : 1);
    mrd_sha_init(&sha);
    while ((count = read(fd, chunk, READ_CHUNK)) > 0) {
        mrd_sha_add(&sha, chunk, (size_t) count);
        if (m->copy != NULL && at + (size_t) count <= m->rec.size)
            memcpy((uint8_t *) m->copy + at, chunk, (size_t) count);
        at += (size_t) count;
    }
    free(chunk);
    close(fd);
    mrd_sha_hex(&sha, m->sha);
    if (m->copy != NULL && at != m->rec.size) { /* the file changed during the read */
        free(m->copy);
        m->copy = NULL;
    }
    return true;
}

static void
take_bytes(model *m, const void *data, bool copy)
{
    mrd_sha sha;

    mrd_sha_init(&sha);
    mrd_sha_add(&sha, data, (size_t) m->rec.size);
    mrd_sha_hex(&sha, m->sha);
    if (copy && m->rec.size <= COPY_MAX && (m->copy = malloc((size_t) m->rec.size)) != NULL)
        memcpy(m->copy, data, (size_t) m->rec.size);
}

/* Returns the highest mode (mrd_models_mode) of the running captures, or -1 if no capture runs. */
static int
wanted_mode(void)
{
    int mode = -1;

    if (!mrd_proc_lock_models())
        return mode;
    for (const mrd_models *models = captures; models != NULL; models = models->next)
        if (models->running && (int) models->mode > mode)
            mode = (int) models->mode;
    mrd_proc_unlock_models();
    return mode;
}

static model *
model_new(uint64_t model_id, const char *path, const void *data, uint64_t size, int32_t vnc,
          int32_t vnc_count)
{
    model *m = calloc(1, sizeof(*m));
    int mode = wanted_mode();
    char *full = NULL;
    size_t room;

    if (m == NULL)
        return NULL;
    m->refs = 1;
    m->rec.load_number = atomic_fetch_add_explicit(&loads, 1, memory_order_relaxed) + 1;
    m->rec.model_id = model_id;
    m->rec.size = size;
    m->rec.vnc = vnc;
    m->rec.vnc_count = vnc_count;
    m->rec.load_ns = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
    /* compute the hash only if it is needed, because it is expensive */
    if (mode >= 0 || mrd_rec_on(MRD_CAP_MODEL)) {
        if (data != NULL)
            take_bytes(m, data, mode >= (path != NULL ? MRD_MODELS_ALL : MRD_MODELS_MEMORY));
        else if (path != NULL)
            (void) read_file(path, m, mode >= MRD_MODELS_ALL);
        if (data != NULL && mrd_rec_on(MRD_CAP_MODEL))
            (void) mrd_neffs_keep(data, (size_t) size, m->sha, m->kept);
    }
    full = path == NULL ? NULL : realpath(path, NULL);
    room = 16 + (full != NULL ? strlen(full) : path != NULL ? strlen(path) : sizeof(m->sha));
    if ((m->uri = malloc(room)) != NULL)
        snprintf(m->uri, room, "%s://%s", path != NULL ? "file" : "memory",
                 full != NULL   ? full
                 : path != NULL ? path
                                : m->sha);
    free(full);
    if (m->uri == NULL) {
        model_unref(m);
        return NULL;
    }
    m->rec.uri = m->uri;
    m->rec.sha256 = m->sha;
    m->rec.data = m->copy;
    m->rec.data_size = m->copy != NULL ? m->rec.size : 0;
    return m;
}

static mrd_rec_arg
number(const char *key, int64_t value)
{
    return (mrd_rec_arg){ .key_text = key, .type = MRD_ITEM_I64, .v.i = value };
}

static void
record_model(const model *m, bool load)
{
    mrd_rec_arg args[] = {
        { .key_text = "model_id", .type = MRD_ITEM_U64, .v.u = m->rec.model_id },
        { .key_text = "size", .type = MRD_ITEM_U64, .v.u = m->rec.size },
        { .key_text = "vnc", .type = MRD_ITEM_I64, .v.i = m->rec.vnc },
        { .key_text = "vnc_count", .type = MRD_ITEM_I64, .v.i = m->rec.vnc_count },
        { .key_text = "hash", .type = MRD_ITEM_TEXT, .v.text = { m->sha, strlen(m->sha) } },
        { .key_text = "path", .type = MRD_ITEM_TEXT, .v.text = { m->uri, strlen(m->uri) } },
        { .key_text = "load_number", .type = MRD_ITEM_U64, .v.u = m->rec.load_number },
    };
    mrd_rec_arg all[sizeof(args) / sizeof(args[0]) + 4];
    size_t count = sizeof(args) / sizeof(args[0]);
    /* timelines show a short name with 12 digits of the hash; an argument has the whole hash */
    char name[sizeof("model ") + 12];

    if (!mrd_rec_on(MRD_CAP_MODEL))
        return;
    memcpy(all, args, sizeof(args));
    if (m->kept[0] != '\0')
        all[count++] = (mrd_rec_arg){ .key_text = "kept",
                                      .type = MRD_ITEM_TEXT,
                                      .v.text = { m->kept, strlen(m->kept) } };
    if (load && m->call.thread_id != 0) {
        all[count++] = number("call_thread_id", m->call.thread_id);
        all[count++] = number("call_from_ns", m->call.from.ns);
        all[count++] = number("call_to_ns", m->call.to.ns);
    }
    for (size_t i = 0; i < count; i++)
        all[i].key = mrd_rec_name(all[i].key_text);
    snprintf(name, sizeof(name), "model %.12s", m->sha);
    mrd_rec_model(load, m->rec.load_number, m->sha[0] != '\0' ? name : m->uri, all, count);
}

/* Adds a model to a capture. The caller holds the lock. Returns false if out of memory; the capture
 * then lacks this model. */
static bool
capture_add(mrd_models *models, model *m)
{
    if (models->n == models->cap) {
        size_t cap = models->cap == 0 ? 16 : models->cap * 2;
        model **v = realloc(models->v, cap * sizeof(*v));

        if (v == NULL)
            return false;
        models->v = v;
        models->cap = cap;
    }
    m->refs++;
    models->v[models->n++] = m;
    return true;
}

/* ---- The registry, under the lock ---- */

/* Returns the address of the link to the newest model with that id. The link itself is NULL if
 * there is no such model. */
static model **
place_of(uint64_t model_id)
{
    model **link = &buckets[model_id & (BUCKETS - 1)];

    while (*link != NULL && (*link)->rec.model_id != model_id)
        link = &(*link)->next_of_bucket;
    return link;
}

static void
register_model(model *m)
{
    model **bucket = &buckets[m->rec.model_id & (BUCKETS - 1)];

    m->next = loaded;
    m->link = &loaded;
    if (loaded != NULL)
        loaded->link = &m->next;
    loaded = m;
    m->next_of_bucket = *bucket;
    *bucket = m;
}

static void
unlink_model(model *m)
{
    model **place = place_of(m->rec.model_id);

    while (*place != m)
        place = &(*place)->next_of_bucket;
    *place = m->next_of_bucket;
    *m->link = m->next;
    if (m->next != NULL)
        m->next->link = m->link;
}

/* Removes the newest model with that id and returns it, or NULL if there is none. */
static model *
take_from_registry(uint64_t model_id)
{
    model *m = *place_of(model_id);

    if (m != NULL)
        unlink_model(m);
    return m;
}

/* Adds a model to the registry, which then owns it. */
static int
take_load(model *m)
{
    bool all = true;

    if (m == NULL)
        return mrd_fail(MERIDIAN_NOMEM, "no memory to note a model");
    m->told = mrd_rec_on(MRD_CAP_MODEL);
    record_model(m, true);
    if (!mrd_proc_lock_models()) {
        model_unref(m);
        return mrd_fail(MERIDIAN_STATE, "called inside a signal handler");
    }
    for (mrd_models *models = captures; models != NULL; models = models->next)
        if (models->running)
            all = capture_add(models, m) && all;
    register_model(m);
    mrd_proc_unlock_models();
    return all ? MERIDIAN_OK : mrd_fail(MERIDIAN_NOMEM, "no memory to note a model");
}

int
mrd_model_loaded(uint64_t model_id, const char *path, const void *data, uint64_t size, int32_t vnc,
                 int32_t vnc_count)
{
    if (data == NULL && path == NULL && size > 0)
        size = 0;
    return take_load(model_new(model_id, path, data, size, vnc, vnc_count));
}

int
mrd_model_loaded_by(uint64_t model_id, const void *data, uint64_t size, int32_t vnc,
                    int32_t vnc_count, const mrd_model_call *call)
{
    model *m = model_new(model_id, NULL, data, size, vnc, vnc_count);

    if (m != NULL)
        m->call = *call;
    return take_load(m);
}

int
mrd_model_unloaded(uint64_t model_id)
{
    model *m;

    if (!mrd_proc_lock_models())
        return mrd_fail(MERIDIAN_STATE, "called inside a signal handler");
    if ((m = take_from_registry(model_id)) != NULL)
        m->rec.unload_ns = mrd_ring_clock_gettime(CLOCK_MONOTONIC_RAW);
    mrd_proc_unlock_models();
    if (m == NULL)
        return mrd_fail(MERIDIAN_NOTFOUND, "no model %llu is loaded",
                        (unsigned long long) model_id);
    record_model(m, false);
    if (mrd_proc_lock_models()) {
        model_unref(m);
        mrd_proc_unlock_models();
    }
    return MERIDIAN_OK;
}

void
mrd_models_forked(void)
{
    model *m, *next;

    if (!mrd_proc_lock_models())
        return;
    for (m = loaded; m != NULL; m = next) {
        next = m->next;
        if (m->call.thread_id != 0) {
            unlink_model(m); /* a model that the program itself reported may have the same id */
            model_unref(m);
        }
    }
    mrd_proc_unlock_models();
}

/* Returns the next model that was not recorded yet, with a reference for the caller. Returns NULL
 * if there is none. */
static model *
next_untold(void)
{
    model *m;

    if (!mrd_proc_lock_models())
        return NULL;
    for (m = loaded; m != NULL && m->told; m = m->next)
        ;
    if (m != NULL) {
        m->told = true;
        m->refs++;
    }
    mrd_proc_unlock_models();
    return m;
}

void
mrd_models_tell(void)
{
    model *m;

    while (mrd_rec_on(MRD_CAP_MODEL) && (m = next_untold()) != NULL) {
        record_model(m, true);
        if (mrd_proc_lock_models()) {
            model_unref(m);
            mrd_proc_unlock_models();
        }
    }
}

void
mrd_model_hash(uint64_t model_id, char ret_hash[MRD_MODEL_HASH])
{
    const model *m;

    ret_hash[0] = '\0';
    if (!mrd_proc_lock_models())
        return;
    if ((m = *place_of(model_id)) != NULL)
        memcpy(ret_hash, m->sha, sizeof(m->sha));
    mrd_proc_unlock_models();
}

/* ---- captures of models (mrd_models_* in meridian.h) ----------------------------------------- */

static bool
valid(const mrd_models *models)
{
    return models != NULL && models->magic == MODELS_MAGIC;
}

int
mrd_models_create(mrd_models_mode mode, uint64_t userdata, mrd_models **ret_models)
{
    mrd_models *models;

    if ((unsigned) mode > MRD_MODELS_ALL || ret_models == NULL)
        return mrd_fail(MERIDIAN_INVALID, "unknown mode %d of a model capture", (int) mode);
    if ((models = calloc(1, sizeof(*models))) == NULL || !mrd_proc_lock_models()) {
        free(models);
        return mrd_fail(MERIDIAN_NOMEM, "no memory for a model capture");
    }
    models->magic = MODELS_MAGIC;
    models->mode = mode;
    models->userdata = userdata;
    models->next = captures;
    captures = models;
    mrd_proc_unlock_models();
    *ret_models = models;
    return MERIDIAN_OK;
}

int
mrd_models_start(mrd_models *models)
{
    bool all = true;

    if (!valid(models))
        return mrd_fail(MERIDIAN_INVALID, "no such model capture");
    if (models->running)
        return mrd_fail(MERIDIAN_STATE, "model capture is started already");
    if (!mrd_proc_lock_models())
        return mrd_fail(MERIDIAN_STATE, "called inside a signal handler");
    models->running = true;
    for (model *m = loaded; m != NULL; m = m->next) {
        bool have = false;

        /* a capture that was stopped and started again already has some of these models */
        for (size_t i = 0; i < models->n; i++)
            have = have || models->v[i] == m;
        all = (have || capture_add(models, m)) && all;
    }
    mrd_proc_unlock_models();
    return all ? MERIDIAN_OK : mrd_fail(MERIDIAN_NOMEM, "no memory to note the loaded models");
}

int
mrd_models_stop(mrd_models *models)
{
    if (!valid(models))
        return mrd_fail(MERIDIAN_INVALID, "no such model capture");
    if (!models->running)
        return mrd_fail(MERIDIAN_STATE, "model capture is not started");
    models->running = false;
    return MERIDIAN_OK;
}

int
mrd_models_get(mrd_models *models, mrd_model_list *ret_list)
{
    mrd_model_record *list;

    if (!valid(models) || ret_list == NULL)
        return mrd_fail(MERIDIAN_INVALID, "no such model capture");
    if (!mrd_proc_lock_models())
        return mrd_fail(MERIDIAN_STATE, "called inside a signal handler");
    list = realloc(models->list, (models->n + 1) * sizeof(*list));
    if (list != NULL) {
        models->list = list;
        for (size_t i = 0; i < models->n; i++) {
            list[i] = models->v[i]->rec;
            if (models->mode == MRD_MODELS_SYMBOLS) {
                list[i].data = NULL;
                list[i].data_size = 0;
            }
        }
    }
    mrd_proc_unlock_models();
    if (list == NULL)
        return mrd_fail(MERIDIAN_NOMEM, "no memory for the list of models");
    *ret_list = (mrd_model_list){ list, models->n, models->userdata };
    return MERIDIAN_OK;
}

int
mrd_models_free(mrd_models *models)
{
    mrd_models **link = &captures;

    if (!valid(models))
        return mrd_fail(MERIDIAN_INVALID, "no such model capture");
    if (!mrd_proc_lock_models())
        return mrd_fail(MERIDIAN_STATE, "called inside a signal handler");
    while (*link != NULL && *link != models)
        link = &(*link)->next;
    if (*link == models)
        *link = models->next;
    for (size_t i = 0; i < models->n; i++)
        model_unref(models->v[i]);
    mrd_proc_unlock_models();
    models->magic = 0;
    free(models->v);
    free(models->list);
    free(models);
    return MERIDIAN_OK;
}
