#include "webhook/inject.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/obj.h"

#define LABEL      "meridian.dev/inject"
#define CONTAINERS "meridian.dev/containers"
#define CAPTURE    "meridian.dev/capture"
#define JOB        "meridian.dev/job"
#define DONE       "meridian.dev/injected"
#define LIBRARY    "meridian-library" /* name of the volume and of the init container */
#define RINGS      "meridian-rings"
#define FOLDER     "/meridian"
#define SHM        "/dev/shm"
#define DEVICES    "aws.amazon.com/neuron"
#define NOBODY     65534

typedef struct {
    const mrd_inject_options *o;
    mrd_injection *to;
    const char *capture, *job;
    bool host_ipc; /* the pod uses the /dev/shm of the host */
    bool rings;    /* containers get the volume for rings at /dev/shm */
    bool recorded[MRD_INJECT_CONTAINERS];
    mrd_err err;
} work;

/* ---- Reading members of untrusted JSON ---- */

static const mrd_json *
object_at(const mrd_json *from, const char *key)
{
    const mrd_json *json = mrd_json_is_object(from) ? mrd_json_get(from, key) : NULL;

    return mrd_json_is_object(json) ? json : NULL;
}

static bool
absent(const mrd_json *json)
{
    return json == NULL || mrd_json_type_of(json) == MRD_JSON_NULL;
}

/* Returns whether elements can be added to the list `key`: it is absent, or an array of objects. */
static bool
list_ok(const mrd_json *from, const char *key)
{
    const mrd_json *json = mrd_json_get(from, key);

    if (absent(json))
        return true;
    if (!mrd_json_is_array(json))
        return false;
    for (size_t i = 0; i < mrd_json_size(json); i++)
        if (!mrd_json_is_object(mrd_json_at(json, i)))
            return false;
    return true;
}

static const mrd_json *
list_at(const mrd_json *from, const char *key)
{
    const mrd_json *json = mrd_json_get(from, key);

    return mrd_json_is_array(json) ? json : NULL;
}

/* Returns the first element of `list` that has this text in the member `member`, and stores its
 * index. Returns NULL if there is none. */
static const mrd_json *
find(const mrd_json *list, const char *member, const char *text, size_t *ret_at)
{
    for (size_t i = 0; list != NULL && i < mrd_json_size(list); i++)
        if (strcmp(mrd_json_str(mrd_json_at(list, i), member, ""), text) == 0) {
            if (ret_at != NULL)
                *ret_at = i;
            return mrd_json_at(list, i);
        }
    return NULL;
}

/* Returns the environment variable with this name and stores its index. If several have the name,
 * the last one is in effect and is returned. */
static const mrd_json *
variable_of(const mrd_json *env, const char *name, size_t *ret_at)
{
    const mrd_json *found = NULL;

    for (size_t i = 0; env != NULL && i < mrd_json_size(env); i++)
        if (strcmp(mrd_json_str(mrd_json_at(env, i), "name", ""), name) == 0) {
            found = mrd_json_at(env, i);
            if (ret_at != NULL)
                *ret_at = i;
        }
    return found;
}

/* Returns true if `path` is `above` or lies below it. Both paths start at the root, even without a
 * slash. */
static bool
contains(const char *above, const char *path)
{
    size_t len;

    above += strspn(above, "/");
    path += strspn(path, "/");
    for (len = strlen(above); len > 0 && above[len - 1] == '/';)
        len--;
    return strncmp(above, path, len) == 0 && (len == 0 || path[len] == '\0' || path[len] == '/');
}

/* Returns true if the container mounts a volume at the path, at one of its parents or below it. */
static bool
mounted(const mrd_json *container, const char *path)
{
    const mrd_json *mounts = list_at(container, "volumeMounts");

    for (size_t i = 0; mounts != NULL && i < mrd_json_size(mounts); i++) {
        const char *at = mrd_json_str(mrd_json_at(mounts, i), "mountPath", "");

        if (at[0] != '\0' && (contains(at, path) || contains(path, at)))
            return true;
    }
    return false;
}

/* ---- Writing the patch ---- */

__attribute__((format(printf, 2, 3))) static void
warn(work *w, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (w->err == MRD_OK)
        w->err = mrd_strlist_add(&w->to->warnings, mrd_str_of(text));
}

/* Adds an operation to the patch, such as "add". Takes ownership of `value`. */
static void
op(work *w, const char *what, const char *path, mrd_json *value)
{
    mrd_json *json = mrd_json_new_object();

    if (json == NULL || value == NULL ||
        mrd_json_set(json, "op", mrd_json_new_str(what)) != MRD_OK ||
        mrd_json_set(json, "path", mrd_json_new_str(path)) != MRD_OK) {
        mrd_json_free(json);
        mrd_json_free(value);
        w->err = MRD_NOMEM;
        return;
    }
    if (mrd_json_set(json, "value", value) != MRD_OK ||
        /* both calls take ownership even if they fail */
        mrd_json_append(w->to->patch, json) != MRD_OK)
        w->err = MRD_NOMEM;
}

/* Adds operations to the patch that add `value` to a list, in front if `first` is set. If *there is
 * false, creates the list first and sets *there. */
static void
add(work *w, bool *there, const char *list, bool first, mrd_json *value)
{
    char path[96];
    mrd_json *one;

    if (*there) {
        snprintf(path, sizeof(path), "%s/%s", list, first ? "0" : "-");
        op(w, "add", path, value);
        return;
    }
    one = mrd_json_new_array();
    if (one == NULL || mrd_json_append(one, value) != MRD_OK)
        w->err = MRD_NOMEM;
    op(w, "add", list, one);
    *there = true;
}

/* Parses a constant that is written as JSON. */
static mrd_json *
made(work *w, const char *text)
{
    mrd_json *doc = NULL;

    if (mrd_json_parse(mrd_str_of(text), "constant", &doc, NULL) != MRD_OK)
        w->err = MRD_NOMEM;
    return doc;
}

static mrd_json *
variable(work *w, const char *name, const char *value)
{
    mrd_json *json = mrd_json_new_object();

    if (mrd_json_set(json, "name", mrd_json_new_str(name)) != MRD_OK ||
        mrd_json_set(json, "value", mrd_json_new_str(value)) != MRD_OK)
        w->err = MRD_NOMEM;
    return json;
}

static mrd_json *
field(work *w, const char *name, const char *path)
{
    char text[192];

    snprintf(text, sizeof(text),
             "{\"name\":\"%s\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":\"%s\"}}}", name, path);
    return made(w, text);
}

/* ---- Changing one container ---- */

/* Returns the reason why the container cannot be recorded, or NULL if it can. */
static const char *
in_the_way(const mrd_json *container)
{
    const mrd_json *preload;

    if (!mrd_json_is_object(container))
        return "it is no object";
    if (!list_ok(container, "env") || !list_ok(container, "volumeMounts"))
        return "its env or volumeMounts is no list of objects";
    if (mounted(container, FOLDER))
        return "something of its own is mounted at " FOLDER;
    preload = variable_of(list_at(container, "env"), "LD_PRELOAD", NULL);
    if (preload != NULL && !absent(mrd_json_get(preload, "valueFrom")))
        return "its LD_PRELOAD comes from elsewhere (valueFrom) and cannot be added to";
    if (strlen(mrd_json_str(preload, "value", "")) > 4096)
        return "its LD_PRELOAD is longer than 4096 bytes";
    return NULL;
}

static void
preload(work *w, const mrd_json *env, const char *list, bool *there)
{
    char path[96], text[4096 + 128];
    const char *file = strrchr(w->o->library, '/'), *old;
    const mrd_json *own;
    size_t at = 0;

    file = file == NULL ? w->o->library : file + 1;
    own = variable_of(env, "LD_PRELOAD", &at);
    old = own == NULL ? "" : mrd_json_str(own, "value", "");
    snprintf(text, sizeof(text), FOLDER "/%.100s%s%s", file, old[0] == '\0' ? "" : ":", old);
    if (own == NULL) {
        add(w, there, list, false, variable(w, "LD_PRELOAD", text));
        return;
    }
    snprintf(path, sizeof(path), "%s/%zu", list, at);
    op(w, "replace", path, variable(w, "LD_PRELOAD", text));
}

static void
container_patch(work *w, const mrd_json *container, size_t i)
{
    static const struct {
        const char *name, *path;
    } fields[] = { { "POD_NAME", "metadata.name" },
                   { "POD_NAMESPACE", "metadata.namespace" },
                   { "POD_UID", "metadata.uid" } };
    const mrd_json *env = list_at(container, "env");
    bool has_env = env != NULL, has_mounts = list_at(container, "volumeMounts") != NULL;
    char list[64];

    snprintf(list, sizeof(list), "/spec/containers/%zu/env", i);
    preload(w, env, list, &has_env);
    if (find(env, "name", "MERIDIAN_CAPTURE", NULL) == NULL)
        add(w, &has_env, list, false, variable(w, "MERIDIAN_CAPTURE", w->capture));
    if (w->job[0] != '\0' && find(env, "name", "MERIDIAN_JOB", NULL) == NULL)
        add(w, &has_env, list, false, variable(w, "MERIDIAN_JOB", w->job));
    for (size_t k = 0; k < MRD_COUNT(fields); k++)
        if (find(env, "name", fields[k].name, NULL) == NULL)
            add(w, &has_env, list, false, field(w, fields[k].name, fields[k].path));
    snprintf(list, sizeof(list), "/spec/containers/%zu/volumeMounts", i);
    add(w, &has_mounts, list, false,
        made(w, "{\"name\":\"" LIBRARY "\",\"mountPath\":\"" FOLDER "\",\"readOnly\":true}"));
    w->rings = w->rings || (!w->host_ipc && !mounted(container, SHM));
    w->recorded[i] = true;
    w->to->containers++;
}

/* Mounts the volume for rings at /dev/shm in all containers of the list `which`, because the
 * containers of a pod share one /dev/shm. This includes containers that are not recorded. A
 * container with a mount of its own there is not changed. container_patch has already created the
 * volumeMounts of the recorded containers. */
static void
rings_patch(work *w, const mrd_json *spec, const char *which, const bool *recorded)
{
    const mrd_json *containers = list_at(spec, which);

    for (size_t i = 0; containers != NULL && i < mrd_json_size(containers); i++) {
        const mrd_json *json = mrd_json_at(containers, i);
        bool there = list_at(json, "volumeMounts") != NULL || (recorded != NULL && recorded[i]);
        char list[64];

        if (!mrd_json_is_object(json) || !list_ok(json, "volumeMounts") || mounted(json, SHM))
            continue;
        snprintf(list, sizeof(list), "/spec/%s/%zu/volumeMounts", which, i);
        add(w, &there, list, false, made(w, "{\"name\":\"" RINGS "\",\"mountPath\":\"" SHM "\"}"));
    }
}

/* ---- Choosing the containers to record ---- */

static bool
has_devices(const mrd_json *container)
{
    static const char *const kinds[] = { "limits", "requests" };
    const mrd_json *resources = object_at(container, "resources");

    for (size_t k = 0; k < MRD_COUNT(kinds); k++) {
        mrd_json *amounts = resources == NULL ? NULL : mrd_json_get(resources, kinds[k]);

        if (!mrd_json_is_object(amounts))
            continue;
        for (void *it = mrd_json_iter(amounts); it != NULL; it = mrd_json_iter_next(amounts, it))
            if (strncmp(mrd_json_iter_key(it), DEVICES, strlen(DEVICES)) == 0)
                return true;
    }
    return false;
}

/* Returns true if `name` is one of the words in a list with commas. Spaces around words are
 * ignored. */
static bool
named(const char *words, const char *name)
{
    size_t len = strlen(name);

    while (len > 0 && *words != '\0') {
        size_t n;

        words += strspn(words, " ,");
        n = strcspn(words, " ,");
        if (n == len && memcmp(words, name, n) == 0)
            return true;
        words += n;
    }
    return false;
}

static void
containers_patch(work *w, const mrd_json *list, const char *wanted)
{
    bool devices = false;
    size_t chosen = 0;

    for (size_t i = 0; wanted == NULL && i < mrd_json_size(list); i++)
        devices |= has_devices(mrd_json_at(list, i));
    for (size_t i = 0; i < mrd_json_size(list) && w->err == MRD_OK; i++) {
        const mrd_json *json = mrd_json_at(list, i);
        const char *name = mrd_json_is_object(json) ? mrd_json_str(json, "name", "") : "", *reason;

        if (wanted != NULL ? !named(wanted, name) : devices && !has_devices(json))
            continue;
        chosen++;
        if ((reason = in_the_way(json)) != NULL)
            warn(w, "meridian: container '%.63s' is not recorded: %s", name, reason);
        else
            container_patch(w, json, i);
    }
    if (chosen == 0 && wanted != NULL)
        warn(w,
             "meridian: nothing is recorded: no container has a name of the annotation " CONTAINERS
             " ('%.100s')",
             wanted);
}

/* ---- Changing the pod ---- */

static const char *
text_at(work *w, const mrd_json *pod, const char *part, const char *key)
{
    const char *v = mrd_json_str(object_at(object_at(pod, "metadata"), part), key, NULL);

    if (v == NULL || strlen(v) <= MRD_INJECT_TEXT)
        return v;
    warn(w, "meridian: %s is longer than %d bytes and does not count", key, MRD_INJECT_TEXT);
    return NULL;
}

/* Returns the name of the pod's job from an annotation or a label, or "". Does not use the name of
 * the pod, because it changes with each attempt of the job. */
static const char *
job_of(work *w, const mrd_json *pod)
{
    static const char *const labels[] = { "batch.kubernetes.io/job-name",
                                          "training.kubeflow.org/job-name", "job-name",
                                          "jobset.sigs.k8s.io/jobset-name",
                                          "app.kubernetes.io/name" };
    const char *v = text_at(w, pod, "annotations", JOB);

    for (size_t i = 0; v == NULL && i < MRD_COUNT(labels); i++)
        v = text_at(w, pod, "labels", labels[i]);
    return v == NULL ? "" : v;
}

/* Returns the reason why the pod stays unchanged, or NULL if it can be changed. The reason is "",
 * which gives no warning, if the pod did not request recording or was already changed. */
static const char *
pod_in_the_way(const mrd_json *pod)
{
    const mrd_json *meta = object_at(pod, "metadata"), *spec = object_at(pod, "spec");

    if (strcmp(mrd_json_str(object_at(meta, "labels"), LABEL, ""), "true") != 0)
        return "";
    if (strcmp(mrd_json_str(object_at(meta, "annotations"), DONE, ""), "true") == 0)
        return "";
    if (spec == NULL || !mrd_json_is_array(mrd_json_get(spec, "containers")))
        return "it has no list of containers";
    if (mrd_json_size(list_at(spec, "containers")) > MRD_INJECT_CONTAINERS)
        return "it has more than 64 containers";
    if (mrd_json_size(list_at(spec, "initContainers")) > MRD_INJECT_CONTAINERS)
        return "it has more than 64 init containers";
    if (!list_ok(spec, "initContainers") || !list_ok(spec, "volumes"))
        return "its initContainers or volumes is no list of objects";
    if (!absent(mrd_json_get(meta, "annotations")) && object_at(meta, "annotations") == NULL)
        return "its annotations are no object";
    if (find(list_at(spec, "volumes"), "name", LIBRARY, NULL) != NULL ||
        find(list_at(spec, "volumes"), "name", RINGS, NULL) != NULL ||
        find(list_at(spec, "initContainers"), "name", LIBRARY, NULL) != NULL ||
        find(list_at(spec, "containers"), "name", LIBRARY, NULL) != NULL)
        return "it has a volume or container named " LIBRARY " or " RINGS " already";
    if (strcmp(mrd_json_str(object_at(spec, "os"), "name", "linux"), "linux") != 0)
        return "it is not for Linux";
    return NULL;
}

/* Adds the init container, which copies the library to a volume. Its requests equal its limits, so
 * that a pod with the QoS class Guaranteed keeps it. It must not run as root. In a pod that runs as
 * root, its user is NOBODY. */
static void
init_container(work *w, const mrd_json *spec)
{
    bool there = list_at(spec, "initContainers") != NULL;
    mrd_json *json = made(
        w,
        "{\"name\":\"" LIBRARY "\",\"image\":\"\",\"imagePullPolicy\":\"IfNotPresent\","
        "\"command\":[\"/bin/cp\"],\"volumeMounts\":[{\"name\":\"" LIBRARY
        "\",\"mountPath\":\"" FOLDER "\"}],\"resources\":{\"requests\":{\"cpu\":\"100m\","
        "\"memory\":\"64Mi\"},\"limits\":{\"cpu\":\"100m\",\"memory\":\"64Mi\"}},"
        "\"securityContext\":{\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,"
        "\"runAsNonRoot\":true,\"capabilities\":{\"drop\":[\"ALL\"]},"
        "\"seccompProfile\":{\"type\":\"RuntimeDefault\"}}}");

    if (w->err == MRD_OK &&
        mrd_json_int(object_at(spec, "securityContext"), "runAsUser", -1) == 0 &&
        (mrd_json_set(mrd_json_get(json, "securityContext"), "runAsUser",
                      mrd_json_new_int(NOBODY)) != MRD_OK ||
         mrd_json_set(mrd_json_get(json, "securityContext"), "runAsGroup",
                      mrd_json_new_int(NOBODY)) != MRD_OK))
        w->err = MRD_NOMEM;
    if (w->err == MRD_OK &&
        (mrd_json_set(json, "image", mrd_json_new_str(w->o->image)) != MRD_OK ||
         mrd_json_append(mrd_json_get(json, "command"), mrd_json_new_str(w->o->library)) !=
             MRD_OK ||
         mrd_json_append(mrd_json_get(json, "command"), mrd_json_new_str(FOLDER "/")) != MRD_OK))
        w->err = MRD_NOMEM;
    add(w, &there, "/spec/initContainers", true, json);
}

static void
pod_patch(work *w, const mrd_json *pod)
{
    const mrd_json *spec = object_at(pod, "spec");
    bool volumes = list_at(spec, "volumes") != NULL;
    char rings[128];

    add(w, &volumes, "/spec/volumes", false,
        made(w, "{\"name\":\"" LIBRARY "\",\"emptyDir\":{\"sizeLimit\":\"64Mi\"}}"));
    if (w->rings) {
        snprintf(rings, sizeof(rings),
                 "{\"name\":\"" RINGS
                 "\",\"emptyDir\":{\"medium\":\"Memory\",\"sizeLimit\":\"%.32s\"}}",
                 w->o->rings);
        add(w, &volumes, "/spec/volumes", false, made(w, rings));
        rings_patch(w, spec, "containers", w->recorded);
        /* must run before init_container inserts our container, which would change the indexes */
        rings_patch(w, spec, "initContainers", NULL);
    }
    init_container(w, spec);
    if (object_at(object_at(pod, "metadata"), "annotations") != NULL)
        op(w, "add", "/metadata/annotations/meridian.dev~1injected", mrd_json_new_str("true"));
    else
        op(w, "add", "/metadata/annotations", made(w, "{\"" DONE "\":\"true\"}"));
}

mrd_err
mrd_inject(const mrd_inject_options *options, const mrd_json *pod, mrd_injection *ret, mrd_why *why)
{
    work w = { .o = options, .to = ret };
    const char *reason;

    if ((ret->patch = mrd_json_new_array()) == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "patch of a pod");
    if ((reason = pod_in_the_way(pod)) != NULL) {
        if (reason[0] != '\0')
            warn(&w, "meridian: the pod is not recorded: %s", reason);
        return w.err == MRD_OK ? MRD_OK : mrd_why_set(why, MRD_NOMEM, 0, "patch of a pod");
    }
    w.host_ipc = mrd_json_bool(object_at(pod, "spec"), "hostIPC", false);
    w.job = job_of(&w, pod);
    if ((w.capture = text_at(&w, pod, "annotations", CAPTURE)) == NULL)
        w.capture = "all";
    containers_patch(&w, list_at(object_at(pod, "spec"), "containers"),
                     text_at(&w, pod, "annotations", CONTAINERS));
    if (ret->containers > 0)
        pod_patch(&w, pod);
    return w.err == MRD_OK ? MRD_OK : mrd_why_set(why, MRD_NOMEM, 0, "patch of a pod");
}

void
mrd_injection_fini(mrd_injection *injection)
{
    mrd_json_free(injection->patch);
    mrd_strlist_fini(&injection->warnings);
    *injection = (mrd_injection){ 0 };
}
