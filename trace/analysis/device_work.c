#include "trace/analysis/device_work.h"

#include <stdlib.h>

#include "base/obj.h"
#include "trace/model/activity.h"
#include "trace/model/arg_keys.h"

/* The meaning of an argument, by its key. */
typedef enum {
    ROLE_NONE,
    ROLE_OPERATION, /* the operation of a communication kernel */
    ROLE_MEMBER,    /* an argument that only communication kernels have */
    ROLE_COPY,      /* an argument that only copies have */
    ROLE_TASK,      /* the type of an Ascend task */
    ROLE_HLO,       /* the category of an XLA operation */
} role;

static const struct {
    mrd_arg_key key;
    role is;
} roles[] = { { MRD_KEY_COLLECTIVE, ROLE_OPERATION }, { MRD_KEY_GROUP_SIZE, ROLE_MEMBER },
              { MRD_KEY_IN_ELEMENTS, ROLE_MEMBER },   { MRD_KEY_COMMS, ROLE_MEMBER },
              { MRD_KEY_COMMS_ID, ROLE_MEMBER },      { MRD_KEY_COPY_DETAILS, ROLE_COPY },
              { MRD_KEY_TASK_TYPE, ROLE_TASK },       { MRD_KEY_HLO_CATEGORY, ROLE_HLO } };

enum {
    KEPT = 0x80,  /* flag: the lower bits contain a valid class */
    BESIDE = 0x40 /* flag for categories: these spans only annotate other spans */
};

typedef struct {
    bool device; /* the track is a device's track in a framework's trace */
    /* Class of all spans on the track, if the track's name shows it, as "MemcpyH2D" does. Else
     * UNKNOWN. */
    mrd_kernel_class class;
} line_state;

struct mrd_device_work {
    const mrd_catalog *cat;
    const mrd_kernel_rules *rules;
    size_t n_names, n_tracks;
    uint8_t *names,
        /* Class of each event name and each category, indexed by string id. An element is a
         * mrd_kernel_class with the flags KEPT and BESIDE; 0 if not classified yet. */
        *categories;
    /* role of an argument name, indexed by string id; NULL if the profile has no such argument */
    uint8_t *role_of;
    line_state *lines; /* indexed by track */
};

/* ---- Tracks ---- */

/* Returns true if XLA's name of a stream lists only copies, as in "Stream
 * #14(MemcpyH2D,MemcpyD2H)". Other text, such as a process name, may come before "Stream". */
static bool
only_copies(mrd_str line)
{
    const char *at = memmem(line.p, line.len, "Stream #", 8), *end = line.p + line.len;

    at = at == NULL ? NULL : memchr(at, '(', (size_t) (end - at));
    if (at == NULL)
        return false;
    for (; at != NULL; at = memchr(at, ',', (size_t) (end - at))) {
        mrd_str item = { at + 1, (size_t) (end - at - 1) };

        if (!mrd_str_starts(item, "Memcpy") && !mrd_str_starts(item, "Memset"))
            return false;
        at++;
    }
    return true;
}

static mrd_kernel_class
line_class(mrd_str line)
{
    char text[256];

    if (only_copies(line))
        return MRD_CLASS_COPY;
    if (mrd_str_has(mrd_kernel_name_form(line, text, sizeof(text)), "_plane_"))
        return MRD_CLASS_NOTHING; /* Ascend shows the steps of a collective on separate tracks */
    return mrd_kernel_class_of_name(NULL, line);
}

/* ---- Arguments ---- */

/* Returns the class of an Ascend task type. Returns UNKNOWN if the type says nothing and the task's
 * name has to decide. */
static mrd_kernel_class
task_class(mrd_str task)
{
    static const struct {
        const char *word;
        mrd_kernel_class class;
    } words[] = { { "EVENT", MRD_CLASS_NOTHING },       { "NOTIFY", MRD_CLASS_NOTHING },
                  { "WRITE_VALUE", MRD_CLASS_NOTHING }, { "PLACE_HOLDER", MRD_CLASS_NOTHING },
                  { "MEMCPY", MRD_CLASS_COPY },         { "SDMA", MRD_CLASS_COPY },
                  { "PCIE_DMA", MRD_CLASS_COPY },       { "COMMUNICATION", MRD_CLASS_MESSAGE },
                  { "HCCL", MRD_CLASS_MESSAGE } };

    for (size_t i = 0; i < MRD_COUNT(words); i++) {
        if (mrd_str_starts(task, words[i].word))
            return words[i].class;
    }
    return MRD_CLASS_UNKNOWN;
}

/* Returns the class of an operation that has an XLA category. A category that names a collective
 * decides alone. Otherwise the operation's name shows communication or a copy, and everything else
 * is computation. */
static mrd_kernel_class
hlo_class(mrd_device_work *work, mrd_str category, mrd_sid name)
{
    mrd_kernel_class class = mrd_kernel_class_of_operation(category),
                     by_name = mrd_device_work_name_class(work, name);

    if (class != MRD_CLASS_MESSAGE || mrd_class_communicates(by_name) || by_name == MRD_CLASS_COPY)
        return class != MRD_CLASS_MESSAGE ? class : by_name;
    return MRD_CLASS_COMPUTE;
}

/* Returns the class of a span that certainly communicates. The usual classification of names is
 * used if it gives communication. If not, the name is searched for a word such as "allreduce". */
static mrd_kernel_class
operation_class(mrd_device_work *work, mrd_sid name)
{
    mrd_kernel_class class = mrd_device_work_name_class(work, name);

    return mrd_class_communicates(class) || class == MRD_CLASS_FUSED
               ? class
               : mrd_kernel_class_of_operation(mrd_catalog_text(work->cat, name));
}

static mrd_kernel_class
args_class(mrd_device_work *work, const mrd_event *ev)
{
    mrd_kernel_class class = MRD_CLASS_UNKNOWN;

    for (uint32_t i = 0; i < ev->arg_count; i++) {
        const mrd_arg *arg = &ev->args[i];

        switch (arg->key < work->n_names ? (role) work->role_of[arg->key] : ROLE_NONE) {
        case ROLE_OPERATION:
            return mrd_kernel_class_of_operation(mrd_arg_text(mrd_catalog_strings(work->cat), arg));
        case ROLE_MEMBER:
            class = operation_class(work, ev->name);
            break; /* continue, because a later argument may state the operation */
        case ROLE_COPY:
            return MRD_CLASS_COPY;
        case ROLE_TASK:
            class = task_class(mrd_arg_text(mrd_catalog_strings(work->cat), arg));
            class = class == MRD_CLASS_MESSAGE ? operation_class(work, ev->name) : class;
            break;
        case ROLE_HLO:
            class = hlo_class(work, mrd_arg_text(mrd_catalog_strings(work->cat), arg), ev->name);
            break;
        case ROLE_NONE:
            break;
        }
    }
    return class;
}

/* ---- Names and categories ---- */

mrd_kernel_class
mrd_device_work_name_class(mrd_device_work *work, mrd_sid name)
{
    if (name >= work->n_names)
        return MRD_CLASS_UNKNOWN;
    if (work->names[name] == 0)
        work->names[name] =
            (uint8_t) (mrd_kernel_class_of_name(work->rules, mrd_catalog_text(work->cat, name)) |
                       KEPT);
    return (mrd_kernel_class) (work->names[name] & ~KEPT);
}

static __attribute__((noinline)) uint8_t
category_first(mrd_device_work *work, mrd_sid category)
{
    mrd_str text = mrd_catalog_text(work->cat, category);
    mrd_activity is = mrd_activity_of(text);
    mrd_kernel_class class = is == MRD_ACTIVITY_HOST || is == MRD_ACTIVITY_BESIDE
                                 ? MRD_CLASS_NOTHING
                                 : mrd_kernel_class_of_name(NULL, text);

    if (class == MRD_CLASS_UNKNOWN && mrd_str_starts(text, "gpu_mem"))
        class = MRD_CLASS_COPY;
    work->categories[category] =
        (uint8_t) (class | KEPT | (is == MRD_ACTIVITY_BESIDE ? BESIDE : 0));
    return work->categories[category];
}

/* Returns the class and flags of a category. Classifies the category at its first use. */
static inline uint8_t
category_of(mrd_device_work *work, mrd_sid category)
{
    if (category == MRD_SID_EMPTY || category >= work->n_names)
        return MRD_CLASS_UNKNOWN;
    return work->categories[category] != 0 ? work->categories[category]
                                           : category_first(work, category);
}

bool
mrd_device_work_is_beside(mrd_device_work *work, mrd_sid category)
{
    return (category_of(work, category) & BESIDE) != 0;
}

mrd_kernel_class
mrd_device_work_class(mrd_device_work *work, const mrd_event *ev)
{
    mrd_kernel_class category =
                         (mrd_kernel_class) (category_of(work, ev->category) & ~(KEPT | BESIDE)),
                     line;
    mrd_kernel_class class = MRD_CLASS_UNKNOWN;

    if (category == MRD_CLASS_NOTHING)
        return category;
    if (work->role_of != NULL)
        class = args_class(work, ev);
    if (class != MRD_CLASS_UNKNOWN)
        return class;
    line = ev->track < work->n_tracks ? work->lines[ev->track].class : MRD_CLASS_UNKNOWN;
    if (category == MRD_CLASS_UNKNOWN && line == MRD_CLASS_UNKNOWN)
        return mrd_device_work_name_class(work, ev->name);
    class = category != MRD_CLASS_UNKNOWN ? category : line;
    return class != MRD_CLASS_MESSAGE ? class : operation_class(work, ev->name);
}

/* ---- Lifecycle ---- */

/* Maps the argument names in `roles` to their string ids in this profile. role_of stays NULL if the
 * profile has none of them. Returns false when out of memory. */
static bool
find_roles(mrd_device_work *work)
{
    for (size_t i = 0; i < MRD_COUNT(roles); i++) {
        mrd_sid key = mrd_arg_key_find(mrd_catalog_strings(work->cat), roles[i].key);

        if (key == MRD_SID_EMPTY)
            continue;
        if (work->role_of == NULL && (work->role_of = calloc(work->n_names + 1, 1)) == NULL)
            return false;
        work->role_of[key] = (uint8_t) roles[i].is;
    }
    return true;
}

mrd_device_work *
mrd_device_work_new(const mrd_catalog *cat, const mrd_kernel_rules *rules)
{
    mrd_device_work *work = calloc(1, sizeof(*work));

    if (work == NULL)
        return NULL;
    work->cat = cat;
    work->rules = rules;
    work->n_names = mrd_strtab_count(mrd_catalog_strings(cat));
    work->n_tracks = mrd_catalog_tracks(cat);
    work->names = calloc(work->n_names + 1, 1);
    work->categories = calloc(work->n_names + 1, 1);
    work->lines = calloc(work->n_tracks + 1, sizeof(*work->lines));
    if (work->names == NULL || work->categories == NULL || work->lines == NULL ||
        !find_roles(work)) {
        mrd_device_work_free(work);
        return NULL;
    }
    for (mrd_track_id id = 0; id < work->n_tracks; id++) {
        const mrd_track *track = mrd_catalog_borrow_track(cat, id);

        work->lines[id].device = track->source == MRD_SRC_FRAMEWORK &&
                                 (track->device_idx != MRD_NONE || track->lnc_idx != MRD_NONE);
        if (work->lines[id].device && track->name != MRD_SID_EMPTY)
            work->lines[id].class = line_class(mrd_catalog_text(cat, track->name));
    }
    return work;
}

void
mrd_device_work_free(mrd_device_work *work)
{
    if (work == NULL)
        return;
    free(work->names);
    free(work->categories);
    free(work->role_of);
    free(work->lines);
    free(work);
}

bool
mrd_device_work_on(const mrd_device_work *work, mrd_track_id track)
{
    return track < work->n_tracks && work->lines[track].device;
}
