#include "tests/hw/tree.h"

#include "hw/identity.h"

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(cgroup_paths)
{
    static const struct {
        const char *name, *path, *pod, *container, *job;
    } rows[] = {
        { "systemd containerd",
          "/kubepods.slice/kubepods-burstable.slice/"
          "kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-" ID64
          ".scope",
          "11111111-2222-3333-4444-555555555555", ID64, "" },
        { "cgroupfs", "/kubepods/besteffort/pod11111111-2222-3333-4444-555555555555/" ID64,
          "11111111-2222-3333-4444-555555555555", ID64, "" },
        { "docker", "/docker/" ID64, "", ID64, "" },
        { "slurm", "/slurm/uid_1000/job_4711/step_0/task_1", "", "", "4711" },
        { "slurm v2", "/system.slice/slurmstepd.scope/job_12/step_batch", "", "", "12" },
        { "plain", "/user.slice/user-0.slice", "", "", "" },
        { "podman word", "/machine.slice/podman-1", "", "", "" },
        { "job without number", "/slurm/job_/x", "", "", "" },
        { "negative job", "/slurm/job_-3", "", "", "" },
        { "63 digits", "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde",
          "", "", "" },
        { "65 digits", "/docker/" ID64 "0", "", "", "" },
        { "endless pod",
          "/podaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "", "",
          "" },
        { "empty", "", "", "", "" },
        { "slashes", "////", "", "", "" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_ident id;

        mrd_ident_init(&id);
        mrd_ident_cgroup(&id, mrd_str_of(rows[i].path));
        CHECK_ROW(rows[i].name, strcmp(id.pod_uid, rows[i].pod) == 0);
        CHECK_ROW(rows[i].name, strcmp(id.container_id, rows[i].container) == 0);
        CHECK_ROW(rows[i].name, strcmp(id.job, rows[i].job) == 0);
    }
}

TEST(environments)
{
    static const struct {
        const char *name;
        mrd_str env;
        int64_t rank, world;
        const char *job;
    } rows[] = {
        { "torchrun", MRD_STR("RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1"), 3, 8, "" },
        { "slurm", MRD_STR("SLURM_PROCID=5\0SLURM_NTASKS=6\0SLURM_LOCALID=0\0SLURM_JOB_ID=99\0"), 5,
          6, "99" },
        { "openmpi", MRD_STR("OMPI_COMM_WORLD_RANK=7\0OMPI_COMM_WORLD_SIZE=9\0"), 7, 9, "" },
        { "torchrun wins under slurm", MRD_STR("SLURM_PROCID=1\0RANK=2\0"), 2, MRD_NONE, "" },
        { "own job wins", MRD_STR("SLURM_JOB_ID=1\0MERIDIAN_JOB=mine\0"), MRD_NONE, MRD_NONE,
          "mine" },
        { "bad rank falls through", MRD_STR("RANK=x\0SLURM_PROCID=4\0"), 4, MRD_NONE, "" },
        { "negative", MRD_STR("RANK=-1\0"), MRD_NONE, MRD_NONE, "" },
        { "too large", MRD_STR("RANK=99999999999999999999\0"), MRD_NONE, MRD_NONE, "" },
        { "first of equal names", MRD_STR("RANK=1\0RANK=2\0"), 1, MRD_NONE, "" },
        { "no equals sign", MRD_STR("RANK\0=\0==\0"), MRD_NONE, MRD_NONE, "" },
        { "control characters",
          MRD_STR("MERIDIAN_JOB=a\nb\x01"
                  "c\0"),
          MRD_NONE, MRD_NONE, "a b c" },
        { "empty", MRD_STR(""), MRD_NONE, MRD_NONE, "" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_ident id;

        mrd_ident_init(&id);
        mrd_ident_environ(&id, rows[i].env);
        CHECK_ROW(rows[i].name, id.rank == rows[i].rank && id.world_size == rows[i].world);
        CHECK_ROW(rows[i].name, strcmp(id.job, rows[i].job) == 0);
    }
}

TEST(a_whole_process)
{
    char proc[512];
    const char *root = test_tmp();
    mrd_ident id;

    snprintf(proc, sizeof(proc), "%s/proc", root);
    tree_file(root, "proc/42/stat",
              "42 (python) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 5 0 777 8192 3 1\n");
    tree_file(root, "proc/42/status", "Name:\tpython\nUid:\t1000\t0\t0\t0\nNSpid:\t42\t7\t2\n");
    tree_file(root, "proc/42/cgroup", "0::/docker/" ID64 "\n");
    tree_file(root, "proc/42/cmdline", "python train.py");
    tree_file(root, "proc/42/environ", "NEURON_RT_INSPECT_OUTPUT_DIR=out");
    tree_file(root, "proc/42/timens_offsets",
              "monotonic           1000          500\nboottime  -3 0\nnonsense 1\n");
    CHECK_ERR("read", mrd_ident_read(proc, 42, &id, NULL), MRD_OK);
    CHECK_INT(id.container_pid, 2);
    CHECK_INT(id.start_ticks, 777);
    CHECK_INT(id.uid, 1000);
    CHECK_INT(id.timens_monotonic_ns, 1000000000500);
    CHECK_INT(id.timens_boottime_ns, -3000000000);
    CHECK_TEXT(id.inspect_dir, "out");
    CHECK_TEXT(id.container_id, ID64);
    CHECK_TEXT(id.command, "python train.py");
    CHECK(!id.env_denied);
    CHECK_ERR("gone", mrd_ident_read(proc, 43, &id, NULL), MRD_NOTFOUND);
}

TEST(this_process)
{
    mrd_ident id;

    CHECK_ERR("read", mrd_ident_read(NULL, getpid(), &id, NULL), MRD_OK);
    CHECK(id.start_ticks > 0 && id.command[0] != '\0' && id.cwd[0] == '/');
}

TEST(node_identity_falls_back)
{
    char machine[512];
    mrd_node_options o = { .timeout = -1, .machine_id = machine };
    mrd_node_identity a, b;
    mrd_why why = { 0 };

    snprintf(machine, sizeof(machine), "%s/machine-id", test_tmp());
    tree_file(test_tmp(), "machine-id", "0123456789abcdef0123456789abcdef\n");
    CHECK_ERR("machine-id", mrd_node_identify(&o, &a, NULL), MRD_OK);
    CHECK_TEXT(a.source, "machine-id");
    CHECK(strncmp(a.instance_id, "m-", 2) == 0 && strlen(a.instance_id) == 19);
    CHECK(strstr(a.instance_id, "0123456789") == NULL);
    CHECK_ERR("again", mrd_node_identify(&o, &b, NULL), MRD_OK);
    CHECK_TEXT(b.instance_id, a.instance_id);
    o.instance_id = "i-0abc";
    CHECK_ERR("option", mrd_node_identify(&o, &a, NULL), MRD_OK);
    CHECK_TEXT(a.instance_id, "i-0abc");
    o.instance_id = "../etc";
    CHECK_ERR("bad option", mrd_node_identify(&o, &a, &why), MRD_INVALID);
    o.instance_id = NULL;
    o.machine_id = "/nonexistent";
    if (mrd_node_identify(&o, &a, &why) == MRD_OK)
        CHECK_TEXT(a.source, "host name");
}

TEST_MAIN()
