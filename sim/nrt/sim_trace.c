/* Simulates the runtime's system trace. Each enabled core has a ring, in which a new event
 * overwrites the oldest one. A fetch removes events and returns them as JSON. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEFAULT_EVENTS 1000000u
#define EVENTS_MAX     (1u << 26)
#define KEYS_MAX       8
/* maximum number of different model names in a process; further models get the last of these
 * names */
#define NAMES_MAX 4096u

/* ---- event types and the keys of their data -------------------------------------------------- */

static const struct {
    const char *name;
    bool hardware;
    const char *start, *stop;
} types[SIM_EV_COUNT] = {
#define SIM_EVENT(n, hw, a, b) { #n, hw, a, b },
#include "sim_events.def"
#undef SIM_EVENT
};

typedef struct {
    char kind;
    /* text to write before the value: "\"key\":", with a comma in front unless it is the first
     * key */
    char text[40];
    const char *choices;
} key;

typedef struct {
    size_t count;
    key keys[KEYS_MAX];
} key_list;

static key_list keys[SIM_EV_COUNT][2];

static void
compile_keys(const char *text, key_list *list)
{
    while (*text != '\0' && list->count < KEYS_MAX) {
        key *k = &list->keys[list->count];
        size_t len = strcspn(text, " ");
        const char *name = text + 1;
        size_t name_len = len - 1;

        k->kind = *text;
        if (k->kind == 's') { /* the key is one of a list of texts, in the form s:A/B:name */
            const char *last = text + len;

            while (last[-1] != ':')
                last--;
            k->choices = text + 2;
            name = last;
            name_len = (size_t) (text + len - last);
        }
        snprintf(k->text, sizeof(k->text), "%s\"%.*s\":", list->count > 0 ? "," : "",
                 (int) name_len, name);
        list->count++;
        text += len + strspn(text + len, " ");
    }
}

__attribute__((constructor)) static void
compile_all_keys(void)
{
    for (size_t i = 0; i < SIM_EV_COUNT; i++) {
        compile_keys(types[i].start, &keys[i][0]);
        compile_keys(types[i].stop, &keys[i][1]);
    }
}

sim_type
sim_type_of(const char *name)
{
    size_t i = 0;

    while (i < SIM_EV_COUNT && strcmp(types[i].name, name) != 0)
        i++;
    return (sim_type) i;
}

bool
sim_type_is_hardware(sim_type type)
{
    return types[type].hardware;
}

/* ---- rings of events ------------------------------------------------------------------------- */

typedef struct {
    uint64_t id, local_id, tracking, thread, seq;
    int64_t stamp;
    uint64_t dev, arg[SIM_ARGS_MAX];
    int32_t worker;
    uint32_t model_id;
    uint32_t name; /* index of the model's name in model_names */
    uint8_t type, phase, pcore;
} event;

typedef struct {
    pthread_mutex_t lock;
    event *slot; /* the events of the ring; NULL if this core has no ring */
    uint64_t size, head, tail;
    uint64_t emitted[SIM_EV_COUNT], overwritten[SIM_EV_COUNT], fetched[SIM_EV_COUNT];
} ring;

static ring rings[SIM_CORES_MAX] = { [0 ... SIM_CORES_MAX -
                                      1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };
/* guards `held`, `config` and the appending to model_names */
static pthread_mutex_t trace_lock = PTHREAD_MUTEX_INITIALIZER;
static int held; /* users that have started the trace, as SIM_TRACE_ bits */
static _Atomic bool active;
static sim_trace_config config;
static _Atomic uint64_t event_next, tracking_next, local_next[SIM_CORES_MAX];
/* names of models; entries are never changed, so readers need no lock */
static char model_names[NAMES_MAX][64];
static _Atomic uint32_t model_name_count;

uint64_t
sim_tracking(void)
{
    return ((uint64_t) sim_mix((uint64_t) sim.set.seed, 77) << 40 & 0x7fffff0000000000u) +
           atomic_fetch_add(&tracking_next, 1) + 1;
}

uint32_t
sim_name_of(const char *name)
{
    uint32_t i;

    pthread_mutex_lock(&trace_lock);
    for (i = atomic_load(&model_name_count); i > 0 && strcmp(model_names[i - 1], name) != 0;)
        i--;
    if (i == 0 && (i = atomic_load(&model_name_count)) < NAMES_MAX) {
        snprintf(model_names[i++], sizeof(model_names[0]), "%s", name);
        atomic_store_explicit(&model_name_count, i, memory_order_release);
    }
    pthread_mutex_unlock(&trace_lock);
    return i;
}

static int64_t
stamp_of(const sim_emit_args *args, uint64_t dev)
{
    if (!types[args->type].hardware || args->type == SIM_EV_timestamp_sync_point ||
        args->type == SIM_EV_nrt_model_switch)
        return sim_wall(args->raw);
    if (sim.set.hw_timestamp == 1)
        return (int64_t) dev;
    /* The real runtime converts device times in the same way. It uses the core's latest sync point
     * (a reading of both clocks at the same time), and assumes that both clocks run at the same
     * rate. */
    if (args->core->sync_cpu[args->pcore] == 0)
        return sim_wall(args->raw);
    return args->core->sync_cpu[args->pcore] + ((int64_t) dev - args->core->sync_dev[args->pcore]);
}

static void
put(ring *r, const event *ev)
{
    pthread_mutex_lock(&r->lock);
    if (r->slot != NULL) {
        event *slot = &r->slot[r->head % r->size];

        if (r->head - r->tail == r->size) {
            r->overwritten[slot->type]++;
            r->tail++;
        }
        *slot = *ev;
        r->head++;
        r->emitted[ev->type]++;
    }
    pthread_mutex_unlock(&r->lock);
}

void
sim_emit(const sim_emit_args *args)
{
    uint64_t dev = types[args->type].hardware ? sim_dev(args->core, args->pcore, args->raw) : 0;
    bool kept = atomic_load_explicit(&active, memory_order_acquire) &&
                !config.core_off[args->core->idx] && !config.type_off[args->type];
    int64_t stamp = stamp_of(args, dev);
    event ev;

    sim_truth_event(args, stamp, dev, kept);
    if (!kept)
        return;
    ev = (event){ .id = atomic_fetch_add(&event_next, 1) + 1,
                  .local_id = atomic_fetch_add(&local_next[args->core->idx], 1),
                  .tracking = args->tracking,
                  .thread = sim_thread_id(),
                  .seq = args->seq,
                  .stamp = stamp,
                  .dev = dev,
                  .worker = args->core->g_id == SIM_ANY ? -1 : (int32_t) args->core->g_id,
                  .type = (uint8_t) args->type,
                  .phase = (uint8_t) args->phase,
                  .pcore = (uint8_t) sim_pcore(args->core, args->pcore) };
    memcpy(ev.arg, args->arg, sizeof(ev.arg));
    if (args->model != NULL) {
        ev.model_id = args->model->id;
        ev.name = args->model->name_index;
    }
    put(&rings[args->core->idx], &ev);
}

static void
emit_args(sim_emit_args *args, const uint64_t *arg, size_t n)
{
    if (n > 0)
        memcpy(args->arg, arg, n * sizeof(*arg));
    sim_emit(args);
}

uint64_t
sim_begin(sim_core *core, sim_type type, const sim_model *model, uint64_t seq, const uint64_t *arg,
          size_t arg_count)
{
    sim_emit_args args = { .core = core,
                           .type = type,
                           .phase = SIM_START,
                           .raw = sim_raw(),
                           .tracking = sim_tracking(),
                           .model = model,
                           .seq = seq };

    emit_args(&args, arg, arg_count);
    return args.tracking;
}

void
sim_end(sim_core *core, sim_type type, uint64_t tracking, uint64_t seq, const uint64_t *arg,
        size_t arg_count)
{
    sim_emit_args args = { .core = core,
                           .type = type,
                           .phase = SIM_STOP,
                           .raw = sim_raw(),
                           .tracking = tracking,
                           .seq = seq };

    emit_args(&args, arg, arg_count);
}

void
sim_span(sim_core *core, sim_type type, const sim_model *model, int64_t from, int64_t to,
         const uint64_t *arg, size_t arg_count)
{
    sim_emit_args args = { .core = core,
                           .type = type,
                           .phase = SIM_START,
                           .raw = from,
                           .tracking = sim_tracking(),
                           .model = model };

    emit_args(&args, arg, arg_count);
    args.phase = SIM_STOP;
    args.raw = to;
    memset(args.arg, 0, sizeof(args.arg));
    sim_emit(&args);
}

/* ---- starting and stopping the trace --------------------------------------------------------- */

void
sim_trace_defaults(sim_trace_config *c)
{
    memset(c, 0, sizeof(*c));
    c->max_events = DEFAULT_EVENTS;
}

static void *
ring_memory(uint64_t size)
{
    void *p = mmap(NULL, size * sizeof(event), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void
rings_close(void)
{
    for (uint32_t i = 0; i < SIM_CORES_MAX; i++) {
        ring *r = &rings[i];

        pthread_mutex_lock(&r->lock);
        if (r->slot != NULL) {
            uint64_t left[SIM_EV_COUNT] = { 0 };

            for (uint64_t at = r->tail; at < r->head; at++)
                left[r->slot[at % r->size].type]++;
            for (size_t t = 0; t < SIM_EV_COUNT; t++)
                if (r->emitted[t] > 0)
                    sim_truth_line("count core=%u type=%s emitted=%llu fetched=%llu "
                                   "overwritten=%llu discarded=%llu",
                                   i, types[t].name, (unsigned long long) r->emitted[t],
                                   (unsigned long long) r->fetched[t],
                                   (unsigned long long) r->overwritten[t],
                                   (unsigned long long) left[t]);
            munmap(r->slot, r->size * sizeof(event));
            r->slot = NULL;
        }
        pthread_mutex_unlock(&r->lock);
    }
}

static NRT_STATUS
rings_open(const sim_trace_config *c)
{
    for (uint32_t i = 0; i < sim.core_count; i++) {
        ring *r = &rings[i];

        if (c->core_off[i])
            continue;
        pthread_mutex_lock(&r->lock);
        r->size = c->max_events;
        r->head = r->tail = 0;
        memset(r->emitted, 0, sizeof(r->emitted));
        memset(r->overwritten, 0, sizeof(r->overwritten));
        memset(r->fetched, 0, sizeof(r->fetched));
        r->slot = ring_memory(r->size);
        pthread_mutex_unlock(&r->lock);
        if (r->slot == NULL) {
            rings_close();
            return NRT_RESOURCE;
        }
    }
    return NRT_SUCCESS;
}

NRT_STATUS
sim_trace_hold(int user, const sim_trace_config *c)
{
    NRT_STATUS status = NRT_SUCCESS;

    if (c->max_events == 0 || c->max_events > EVENTS_MAX)
        return NRT_INVALID;
    pthread_mutex_lock(&trace_lock);
    if ((held & user) != 0)
        status = NRT_INVALID;
    else if (held == 0 && (status = rings_open(c)) == NRT_SUCCESS) {
        config = *c;
        atomic_store_explicit(&active, true, memory_order_release);
    }
    if (status == NRT_SUCCESS)
        held |= user;
    pthread_mutex_unlock(&trace_lock);
    return status;
}

NRT_STATUS
sim_trace_release(int user)
{
    NRT_STATUS status = NRT_SUCCESS;

    pthread_mutex_lock(&trace_lock);
    if ((held & user) == 0)
        status = NRT_INVALID;
    else if ((held &= ~user) == 0) {
        atomic_store_explicit(&active, false, memory_order_release);
        rings_close();
    }
    pthread_mutex_unlock(&trace_lock);
    return status;
}

void
sim_trace_forked(void)
{
    pthread_mutex_init(&trace_lock, NULL);
    held = 0;
    active = false;
    for (uint32_t i = 0; i < SIM_CORES_MAX; i++) {
        pthread_mutex_init(&rings[i].lock, NULL);
        if (rings[i].slot != NULL)
            munmap(rings[i].slot, rings[i].size * sizeof(event));
        rings[i].slot = NULL;
    }
}

void
sim_trace_sum(sim_trace_totals *ret_totals)
{
    sim_trace_totals totals = { 0 };

    for (uint32_t i = 0; i < sim.core_count; i++) {
        ring *r = &rings[i];

        pthread_mutex_lock(&r->lock);
        totals.stored += r->slot == NULL ? 0 : r->head - r->tail;
        for (size_t k = 0; k < SIM_EV_COUNT; k++) {
            totals.emitted += r->emitted[k];
            totals.overwritten += r->overwritten[k];
            totals.fetched += r->fetched[k];
        }
        pthread_mutex_unlock(&r->lock);
    }
    *ret_totals = totals;
}

NRT_STATUS
nrt_sys_trace_start(nrt_sys_trace_config_t *options)
{
    SIM_NEEDS_OPEN();
    if (options == NULL)
        return NRT_INVALID;
    return sim_trace_hold(SIM_TRACE_API, &options->c);
}

NRT_STATUS
nrt_sys_trace_stop(void)
{
    SIM_NEEDS_OPEN();
    return sim_trace_release(SIM_TRACE_API);
}

/* ---- configuration of the trace -------------------------------------------------------------- */

NRT_STATUS
nrt_sys_trace_config_allocate(nrt_sys_trace_config_t **options)
{
    if (options == NULL)
        return NRT_INVALID;
    if ((*options = malloc(sizeof(**options))) == NULL)
        return NRT_RESOURCE;
    sim_trace_defaults(&(*options)->c);
    return NRT_SUCCESS;
}

void
nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t *options)
{
    if (options != NULL)
        sim_trace_defaults(&options->c);
}

void
nrt_sys_trace_config_free(nrt_sys_trace_config_t *options)
{
    free(options);
}

void
nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t *options, uint64_t max_events)
{
    if (options != NULL)
        options->c.max_events = max_events;
}

void
nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t *options, uint32_t nc,
                                                bool enabled)
{
    if (options != NULL && nc < SIM_CORES_MAX)
        options->c.core_off[nc] = !enabled;
}

NRT_STATUS
nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t *options,
                                                        const char *type, bool enabled)
{
    sim_type t;

    if (options == NULL || type == NULL || (t = sim_type_of(type)) == SIM_EV_COUNT)
        return NRT_INVALID;
    options->c.type_off[t] = !enabled;
    return NRT_SUCCESS;
}

/* Copies `n` names. The array and each string are separate allocations by malloc, so that callers
 * can free each of them. */
NRT_STATUS
sim_names_copy(const char *const *from, size_t n, const char ***ret_names, size_t *ret_count)
{
    const char **copy = calloc(n + 1, sizeof(*copy));

    if (copy == NULL)
        return NRT_RESOURCE;
    for (size_t i = 0; i < n; i++)
        if ((copy[i] = strdup(from[i])) == NULL) {
            nrt_sys_trace_free_event_types(copy, i);
            return NRT_RESOURCE;
        }
    *ret_names = copy;
    *ret_count = n;
    return NRT_SUCCESS;
}

static NRT_STATUS
types_copy(const sim_trace_config *c, const char ***ret_types, size_t *ret_count)
{
    const char *names[SIM_EV_COUNT];
    size_t n = 0;

    if (ret_types == NULL || ret_count == NULL)
        return NRT_INVALID;
    for (size_t i = 0; i < SIM_EV_COUNT; i++)
        if (c == NULL || !c->type_off[i])
            names[n++] = types[i].name;
    return sim_names_copy(names, n, ret_types, ret_count);
}

NRT_STATUS
nrt_sys_trace_get_event_types(const char ***out, size_t *count)
{
    return types_copy(NULL, out, count);
}

NRT_STATUS
nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t *options, const char ***out,
                                             size_t *count)
{
    return options == NULL ? NRT_INVALID : types_copy(&options->c, out, count);
}

void
nrt_sys_trace_free_event_types(const char **names, size_t count)
{
    for (size_t i = 0; names != NULL && i < count; i++) {
        void *p;

        /* the interface declares the strings const, although the caller owns them */
        memcpy(&p, &names[i], sizeof(p));
        free(p);
    }
    free(names);
}

/* ---- fetching events as JSON ----------------------------------------------------------------- */

struct nrt_sys_trace_fetch_options {
    uint64_t max_events, nc; /* UINT64_MAX for all */
};

NRT_STATUS
nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t **options)
{
    if (options == NULL)
        return NRT_INVALID;
    if ((*options = malloc(sizeof(**options))) == NULL)
        return NRT_RESOURCE;
    nrt_sys_trace_fetch_options_set_defaults(*options);
    return NRT_SUCCESS;
}

void
nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t *options)
{
    if (options != NULL)
        options->max_events = options->nc = UINT64_MAX;
}

void
nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t *options)
{
    free(options);
}

void
nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t *options,
                                                  uint64_t max_events)
{
    if (options != NULL)
        options->max_events = max_events;
}

void
nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t *options, uint64_t nc_idx)
{
    if (options != NULL)
        options->nc = nc_idx;
}

typedef struct {
    char *p;
    size_t len, room;
    bool failed;
} text;

static void
add(text *t, const char *s, size_t len)
{
    if (t->len + len + 1 > t->room && !t->failed) {
        size_t room = (t->len + len + 1) * 2;
        char *grown = realloc(t->p, room < 65536 ? 65536 : room);

        t->failed = grown == NULL;
        if (grown != NULL) {
            t->p = grown;
            t->room = room < 65536 ? 65536 : room;
        }
    }
    if (t->failed)
        return;
    memcpy(t->p + t->len, s, len);
    t->len += len;
}

static void
adds(text *t, const char *s)
{
    add(t, s, strlen(s));
}

static void
add_u64(text *t, uint64_t v)
{
    char digits[20];
    size_t n = sizeof(digits);

    do
        digits[--n] = (char) ('0' + v % 10);
    while ((v /= 10) > 0);
    add(t, digits + n, sizeof(digits) - n);
}

static void
add_i64(text *t, int64_t v)
{
    if (v < 0)
        adds(t, "-");
    add_u64(t, v < 0 ? -(uint64_t) v : (uint64_t) v);
}

static void
add_choice(text *t, const char *choices, uint64_t index)
{
    size_t n;

    while (index-- > 0 && choices[strcspn(choices, "/:")] == '/')
        choices += strcspn(choices, "/") + 1;
    n = strcspn(choices, "/: ");
    adds(t, "\"");
    add(t, choices, n);
    adds(t, "\"");
}

/* Appends a model's name as a JSON string. Characters that would need escapes are replaced by
 * "?". */
static void
add_name(text *t, uint32_t name)
{
    adds(t, "\"");
    for (const char *p = name == 0 ? "" : model_names[name - 1]; *p != '\0'; p++) {
        bool plain =
            (unsigned char) *p >= 0x20 && (unsigned char) *p < 0x7f && *p != '"' && *p != '\\';

        add(t, plain ? p : "?", 1);
    }
    adds(t, "\"");
}

static void
add_data(text *t, const event *ev)
{
    const key_list *list = &keys[ev->type][ev->phase == SIM_STOP];
    size_t arg = 0;
    char hex[24];

    for (size_t i = 0; i < list->count; i++) {
        const key *k = &list->keys[i];

        adds(t, k->text);
        switch (k->kind) {
        case 'c':
            add_u64(t, ev->dev);
            break;
        case 'p':
            add_u64(t, ev->pcore);
            break;
        case 'm':
            add_u64(t, ev->model_id);
            break;
        case 'n':
            add_name(t, ev->name);
            break;
        case 's':
            add_choice(t, k->choices, ev->arg[arg++]);
            break;
        case 'x':
            snprintf(hex, sizeof(hex), "\"0x%llx\"", (unsigned long long) ev->arg[arg++]);
            adds(t, hex);
            break;
        case 'b':
            adds(t, ev->arg[arg++] != 0 ? "true" : "false");
            break;
        case 'i':
            add_i64(t, (int64_t) ev->arg[arg++]);
            break;
        default:
            add_u64(t, ev->arg[arg++]);
        }
    }
}

static void
add_event(text *t, uint32_t core, const event *ev)
{
    static const char *const phases[] = { "start", "stop", "instant" };

    adds(t, "{\"event_type\":\"");
    adds(t, types[ev->type].name);
    adds(t, "\",\"phase\":\"");
    adds(t, phases[ev->phase]);
    adds(t, "\",\"id\":");
    add_u64(t, ev->id);
    adds(t, ",\"nc_idx\":");
    add_u64(t, core);
    adds(t, ",\"nc_local_id\":");
    add_u64(t, ev->local_id);
    adds(t, ",\"tracking_id\":");
    add_u64(t, ev->tracking);
    adds(t, ",\"thread_id\":");
    add_u64(t, ev->thread);
    adds(t, ",\"worker_gid\":");
    add_i64(t, ev->worker);
    adds(t, ",\"data\":{");
    add_data(t, ev);
    adds(t, "},\"timestamp_ns\":");
    add_i64(t, ev->stamp);
    if (ev->seq != 0) {
        adds(t, ",\"nrta_seq_id\":");
        add_u64(t, ev->seq);
    }
    adds(t, "}");
}

/* Removes up to `max` events from a core's ring, and appends them to `t` as JSON. It formats them
 * after it releases the lock, so that emitting is not delayed. */
static NRT_STATUS
fetch_core(text *t, uint32_t core, uint64_t max, bool *first)
{
    ring *r = &rings[core];
    event *copy = NULL;
    uint64_t n;

    pthread_mutex_lock(&r->lock);
    n = r->slot == NULL ? 0 : r->head - r->tail;
    n = n < max ? n : max;
    if (n > 0 && (copy = malloc(n * sizeof(*copy))) == NULL) {
        pthread_mutex_unlock(&r->lock);
        return NRT_RESOURCE;
    }
    for (uint64_t i = 0; i < n; i++) {
        copy[i] = r->slot[(r->tail + i) % r->size];
        r->fetched[copy[i].type]++;
    }
    r->tail += n;
    pthread_mutex_unlock(&r->lock);
    for (uint64_t i = 0; i < n; i++) {
        if (!*first)
            adds(t, ",");
        *first = false;
        add_event(t, core, &copy[i]);
    }
    free(copy);
    return t->failed ? NRT_RESOURCE : NRT_SUCCESS;
}

NRT_STATUS
nrt_sys_trace_fetch_events(char **buffer, size_t *written,
                           const nrt_sys_trace_fetch_options_t *options)
{
    static _Atomic uint64_t fetches;
    nrt_sys_trace_fetch_options_t all = { UINT64_MAX, UINT64_MAX };
    const sim_fault *fault;
    NRT_STATUS status = NRT_SUCCESS;
    bool first = true;
    text t = { 0 };

    SIM_NEEDS_OPEN();
    if (options == NULL)
        options = &all;
    if (buffer == NULL || written == NULL || *buffer != NULL ||
        (options->nc != UINT64_MAX && options->nc >= sim.core_count))
        return NRT_INVALID;
    if (!atomic_load(&active))
        return NRT_FAILURE; /* fails, because no trace was started */
    fault =
        sim_fault_hit(SIM_FAULT_FETCH_ERROR, SIM_ANY, SIM_ANY, atomic_fetch_add(&fetches, 1) + 1);
    if (fault != NULL)
        return (NRT_STATUS) fault->status;
    adds(&t, "{\"data_version\":2,\"simulated\":\"" SIM_LABEL "\",\"events\":[");
    for (uint32_t i = 0; i < sim.core_count && status == NRT_SUCCESS; i++)
        if (options->nc == UINT64_MAX || options->nc == i)
            status = fetch_core(&t, i, options->max_events, &first);
    adds(&t, "]}");
    if (t.failed || status != NRT_SUCCESS) {
        free(t.p);
        return NRT_RESOURCE;
    }
    t.p[t.len] = '\0'; /* add() always leaves room for the NUL byte */
    *buffer = t.p;
    *written = t.len;
    return NRT_SUCCESS;
}

void
nrt_sys_trace_buffer_free(char *buffer)
{
    free(buffer);
}
