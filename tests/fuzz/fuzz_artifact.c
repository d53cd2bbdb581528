/* Fuzzes the aggregator's receiver of artifacts. Each message of the input has its kind, two bytes
 * of length, and its body. Stored bytes must stay in <store>/artifacts and within the announced
 * size. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/core/decide/artifacts.h"
#include "aggregator/store/artifacts_int.h"
#include "base/sys/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
on_grown(void *self, const char *sha256, uint64_t bytes, uint64_t more)
{
    (void) self;
    (void) sha256;
    (void) bytes;
    (void) more;
}

static void
say(mrd_artifacts *a, mrd_core *c, const mrd_node *n, bool chunk, mrd_bytes body)
{
    mrd_frame f = { .type = chunk ? MRD_FRAME_CHUNK : MRD_FRAME_ANNOUNCE };
    mrd_core_time now = { .local = mrd_local_now(), .wall = mrd_wall_now() };
    Mrd__ArtifactRequest request = MRD__ARTIFACT_REQUEST__INIT;
    Mrd__Ack ack = MRD__ACK__INIT;
    char text[MRD_TEXT_MAX] = "";
    mrd_msg msg;

    if (mrd_msg_unpack_body(&f, body, &msg, NULL) != MRD_OK)
        return;
    if (!chunk && mrd_core_artifact_announced(c, now, n, 0, msg.u.announce, NULL) == MRD_OK &&
        mrd_artifact_begin(a, 0, msg.u.announce, &request, text) == MRD_OK &&
        (strstr(msg.u.announce->name, "..") == msg.u.announce->name ||
         request.offset > msg.u.announce->size))
        abort();
    if (chunk && mrd_artifact_chunk(a, 0, msg.u.chunk, &ack, text) == MRD_OK) {
        struct stat st;
        char path[400];

        snprintf(path, sizeof(path), "%s/artifacts/%s.part", a->o.store->dir, msg.u.chunk->sha256);
        if (stat(path, &st) == 0 && (uint64_t) st.st_size < ack.artifact_offset)
            abort();
    }
    mrd_msg_free(&msg);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/mrd-fuzz-XXXXXX";
    mrd_core_options o = { .seed = 1 };
    mrd_node node = { .instance_id = "i-1" };
    mrd_session_store store;
    mrd_artifacts a = { .o = { .store = &store, .grown = on_grown } };
    mrd_core *c;

    if (mkdtemp(dir) == NULL ||
        mrd_session_store_open(&store, dir, MRD_SYNC_NONE, &o.timescale, NULL) != MRD_OK ||
        (c = mrd_core_new(&o, (mrd_core_time){ .local = mrd_local_now() })) == NULL ||
        (a.uploads = calloc(MRD_UPLOADS_MAX, sizeof(*a.uploads))) == NULL)
        abort();
    while (size >= 3) {
        size_t len = (size_t) data[1] << 8 | data[2];

        len = len > size - 3 ? size - 3 : len;
        say(&a, c, &node, data[0] % 2 == 1, (mrd_bytes){ data + 3, len });
        data += 3 + len;
        size -= 3 + len;
    }
    for (size_t i = 0; i < MRD_UPLOADS_MAX; i++)
        mrd_upload_forget(&a.uploads[i]);
    free(a.uploads);
    mrd_core_free(c);
    mrd_session_store_fini(&store);
    mrd_remove_tree(dir);
    return 0;
}
