/* Offers and chunks of artifacts, one after the other: per message its kind, two bytes of length,
 * its body. Whatever is said, what is stored stays in <store>/artifacts and below the size offered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aggregator/hub.h"
#include "base/out.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
say(hub *h, hub_node *n, bool chunk, mrd_bytes body)
{
    mrd_frame f = { .type = chunk ? MRD_FRAME_CHUNK : MRD_FRAME_OFFER };
    Mrd__ArtifactWant want = MRD__ARTIFACT_WANT__INIT;
    Mrd__Ack ack = MRD__ACK__INIT;
    char text[HUB_TEXT_MAX] = "";
    mrd_msg msg;

    if (mrd_msg_unpack_body(&f, body, &msg, NULL) != MRD_OK)
        return;
    if (!chunk && artifact_offer(h, n, &msg, &want, text) == MRD_OK &&
        (strstr(msg.u.offer->name, "..") == msg.u.offer->name || want.offset > msg.u.offer->size))
        abort();
    if (chunk && artifact_chunk(h, &msg, &ack, text) == MRD_OK) {
        struct stat st;
        char path[400];

        snprintf(path, sizeof(path), "%s/artifacts/%s.part", h->store, msg.u.chunk->sha256);
        if (stat(path, &st) == 0 && (uint64_t) st.st_size < ack.artifact_offset)
            abort();
    }
    mrd_msg_free(&msg);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/mrd-fuzz-XXXXXX";
    hub_node node = { .instance_id = "i-1" };
    hub *h = calloc(1, sizeof(*h));

    if (h == NULL || mkdtemp(dir) == NULL)
        abort();
    h->sync = MRD_SYNC_NONE;
    if (hub_init(h, dir, NULL) != MRD_OK)
        abort();
    pthread_mutex_lock(&h->lock);
    while (size >= 3) {
        size_t len = (size_t) data[1] << 8 | data[2];

        len = len > size - 3 ? size - 3 : len;
        say(h, &node, data[0] % 2 == 1, (mrd_bytes){ data + 3, len });
        data += 3 + len;
        size -= 3 + len;
    }
    pthread_mutex_unlock(&h->lock);
    hub_fini(h);
    free(h);
    mrd_remove_tree(dir);
    return 0;
}
