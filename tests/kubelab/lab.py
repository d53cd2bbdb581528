"""A Kubernetes of two nodes on this machine: etcd, API server, controller-manager and scheduler beside each other; kubelet, containerd and kube-proxy
twice, each in namespaces of its own (network, mounts, processes, names). All of it runs below one process namespace, so that nothing outlives
the test, however it ends; the cgroups that may, with SIGKILL, are removed by the next start. What is real and what is not: docs/dev/laboratories.md."""
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import image
import namespaces
from lib import check, skip
from namespaces import make_cgroup, run
from wait import pace, within

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("MERIDIAN_KUBELAB") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "meridian-kubelab")
INSIDE = "MERIDIAN_KUBELAB_INSIDE"
CGROUP, LINKS = "meridian-kubelab", ["lab0", "cni0", "v1", "v2"]
TOOLS = {"etcd": "etcd-server", "containerd": "containerd", "ctr": "containerd", "/usr/sbin/runc": "runc", "/usr/lib/cni/bridge": "containernetworking-plugins",
         "iptables": "iptables", "conntrack": "conntrack", "dnsmasq": "dnsmasq-base", "openssl": "openssl", "ip": "iproute2", "nsenter": "util-linux",
         "unshare": "util-linux", "kubectl": "kubectl (1.21 or newer)", "mmdebstrap": "mmdebstrap", "cc": "gcc", "cmake": "cmake"}
HOST = "192.0.2.1"  # of the API server and of DNS
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /{cgroup}
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
failSwapOn: false
evictionHard: {{}}
imageGCHighThresholdPercent: 100
resolvConf: ""
clusterDNS: ["{host}"]
clusterDomain: cluster.local
readOnlyPort: 0
healthzPort: 0
syncFrequency: 5s
nodeStatusUpdateFrequency: 5s
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}, x509: {{clientCAFile: "{pki}/ca.crt"}}}}
authorization: {{mode: AlwaysAllow}}
"""
CONTAINERD = """version = 2
root = "{dir}/root"
state = "/run/lab-containerd"
[grpc]
address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/pause:1"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{dir}/runc_lab.py"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{dir}/cni"
"""
# What a node has for itself: device plugins, pods' logs, the store of hostPaths and what was left to /run, /tmp and /dev/shm.
NODE_MOUNTS = """set -e
for at in /run /tmp /dev/shm; do mount -t tmpfs tmpfs $at; done
mount --bind {dir}/lib /var/lib; mount --bind {dir}/log /var/log
mkdir -p /run/lock
"""


def enter():
    """Runs the calling test again below a process namespace of its own; returns there. Skips with the reason where it cannot."""
    if namespaces.inside(INSIDE):
        return namespaces.enter(INSIDE, CGROUP, CACHE, LINKS)
    if os.geteuid() != 0:
        skip("the laboratory needs root: sudo make kubelab")
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool, path=PATH + ":/usr/local/bin")})
    if missing:
        skip("the laboratory needs packages of Debian 12: " + " ".join(missing) + " (scripts/setup.sh kubelab)")
    for name in ("memory", "cpu", "cpuset", "devices"):
        if not os.path.isdir(f"/sys/fs/cgroup/{name}"):
            skip(f"Kubernetes 1.20 with cgroupfs needs cgroup v1; there is no /sys/fs/cgroup/{name}")
    if "build" not in sys.argv and not os.path.exists(os.path.join(CACHE, "built")) and not os.environ.get("MERIDIAN_KUBELAB_BUILD"):
        skip(f"Kubernetes is not built in {CACHE}: make kubelab builds it (some 25 minutes, once)")
    os.makedirs(CACHE, exist_ok=True)
    image.base(CACHE)  # there is no network inside
    namespaces.enter(INSIDE, CGROUP, CACHE, LINKS)


class Node:
    def __init__(self, lab, number):
        self.lab, self.number, self.name, self.address = lab, number, f"node{number}", f"192.0.2.{10 + number}"
        self.dir, self.daemons = os.path.join(lab.dir, f"node{number}"), {}

    def begin(self):
        """The namespaces, the network and the folders of the node."""
        for name in ("lib/kubelet", "log", "cni"):
            os.makedirs(os.path.join(self.dir, name))
        holder = self.lab.start(f"{self.name}", ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc", self.lab.pause])
        children = f"/proc/{holder.pid}/task/{holder.pid}/children"
        self.pid = within(20, lambda: next((int(p) for p in open(children).read().split() if os.readlink(f"/proc/{p}/exe") == self.lab.pause), None))
        if self.pid is None:
            raise RuntimeError(f"the namespaces of {self.name} did not come up")
        veth, other = f"v{self.number}", 3 - self.number
        run("ip", "link", "add", veth, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        run("ip", "link", "set", veth, "master", "lab0", "up")
        run("ip", "route", "add", f"10.244.{self.number}.0/24", "via", self.address)
        self.sh(f"hostname {self.name}; ip link set lo up; ip link set eth0 up; ip address add {self.address}/24 dev eth0; ip route add default via {HOST}; "
                f"ip route add 10.244.{other}.0/24 via 192.0.2.{10 + other}; echo 1 >/proc/sys/net/ipv4/ip_forward; " + NODE_MOUNTS.format(dir=self.dir))
        with open(os.path.join(self.dir, "cni/10-lab.conflist"), "w") as f:
            json.dump({"cniVersion": "0.4.0", "name": "lab", "plugins": [
                {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True,
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": f"10.244.{self.number}.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
                {"type": "portmap", "capabilities": {"portMappings": True}}]}, f)
        shutil.copy(os.path.join(HERE, "runc_lab.py"), self.dir)  # a checkout below /tmp is not seen inside
        with open(os.path.join(self.dir, "containerd.toml"), "w") as f:
            f.write(CONTAINERD.format(dir=self.dir, snapshotter=self.lab.snapshotter))
        self.cgroup = f"{CGROUP}/{self.name}"
        with open(os.path.join(self.dir, "kubelet.yaml"), "w") as f:
            f.write(KUBELET.format(cgroup=self.cgroup, host=HOST, pki=self.lab.pki))
        make_cgroup(self.cgroup)
        self.lab.certificate(self.name, f"/O=system:nodes/CN=system:node:{self.name}")
        self.lab.kubeconfig(self.name)

    def words(self, *words):
        return ["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-u", "-i", *words]

    def sh(self, text, **options):
        return run(*self.words("sh", "-c", text), **options)

    def containerd(self):
        self.daemons["containerd"] = self.lab.start(self.name + "-containerd", self.words("containerd", "-c", os.path.join(self.dir, "containerd.toml")))

    def import_images(self, path):
        if not within(60, lambda: run(*self.ctr("version"), check_it=False)):
            raise RuntimeError(f"containerd of {self.name} does not answer; see {self.lab.dir}/{self.name}-containerd.log")
        run(*self.ctr("-n", "k8s.io", "images", "import", "--snapshotter", self.lab.snapshotter, path))

    def ctr(self, *words):
        return self.words("ctr", "-a", "/run/containerd.sock", *words)

    def kubelet(self):
        self.daemons["kubelet"] = self.lab.start(self.name + "-kubelet", self.words(
            os.path.join(CACHE, "bin/kubelet"), f"--config={self.dir}/kubelet.yaml", f"--kubeconfig={self.lab.pki}/{self.name}.conf", "--container-runtime=remote",
            "--container-runtime-endpoint=unix:///run/containerd.sock", f"--hostname-override={self.name}", f"--node-ip={self.address}",
            f"--volume-plugin-dir={self.dir}/plugins", "--v=2"))

    def proxy(self):
        self.daemons["proxy"] = self.lab.start(self.name + "-proxy", self.words(
            os.path.join(CACHE, "bin/kube-proxy"), f"--kubeconfig={self.lab.pki}/admin.conf", f"--hostname-override={self.name}", "--proxy-mode=iptables",
            "--conntrack-max-per-core=0", "--cluster-cidr=10.244.0.0/16"))

    def stop(self, name):
        """Ends a daemon of the node, not what it started."""
        p = self.daemons.pop(name)
        for child in open(f"/proc/{p.pid}/task/{p.pid}/children").read().split():
            os.kill(int(child), signal.SIGTERM)
        p.terminate()
        p.wait(30)


class Lab(namespaces.Laboratory):
    """with Lab() as lab: two nodes are Ready; lab.kubectl(...) is as the cluster's administrator."""

    def __init__(self):
        super().__init__(CACHE, CGROUP)
        self.pki, self.work = os.path.join(self.dir, "pki"), os.path.join(self.dir, "work")
        self.nodes, self.dns = [Node(self, 1), Node(self, 2)], None

    def begin(self):
        begun = time.monotonic()
        for path in (self.pki, self.work):
            os.makedirs(path)
        self.env = {"PATH": f"{os.path.join(os.environ.get('MERIDIAN_BUILD', ''), 'bin')}:{PATH}:/usr/local/bin", "KUBECONFIG": f"{self.pki}/admin.conf",
                    "HOME": self.dir, "LC_ALL": "C"}
        self.pause = os.path.join(self.dir, "pause")
        run("cc", "-O1", "-static", "-o", self.pause, os.path.join(HERE, "pause.c"))
        self.snapshotter = self.find_snapshotter()
        self.images = image.build(CACHE, self.work, self.pause)
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "lab0", "type", "bridge")
        run("ip", "address", "add", HOST + "/24", "dev", "lab0")
        run("ip", "link", "set", "lab0", "up")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as f:
            f.write("1")
        self.certificates()
        self.control_plane()
        for node in self.nodes:
            node.begin()
            node.containerd()
        for node in self.nodes:
            node.import_images(self.images)
            node.proxy()
            node.kubelet()
        self.dns = Dns(self)
        self.wait_ready()
        print(f"kubelab: two nodes Ready after {time.monotonic() - begun:.0f} s ({self.snapshotter} snapshots)")

    def wait_ready(self, seconds=180):
        if not within(seconds, lambda: self.kubectl("get", "nodes", "--no-headers", ok=None).count(" Ready ") == 2):
            raise RuntimeError(f"the nodes are not Ready: {self.kubectl('get', 'nodes', ok=None)}")

    def find_snapshotter(self):
        """overlayfs where the file system of the cache can carry it; else whole copies."""
        parts = [os.path.join(self.dir, "overlay", part) for part in ("lower", "upper", "work", "at")]
        for part in parts:
            os.makedirs(part)
        p = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", "lowerdir={},upperdir={},workdir={}".format(*parts), parts[3]], capture_output=True)
        if p.returncode == 0:
            run("umount", parts[3])
        return "overlayfs" if p.returncode == 0 else "native"

    def start(self, name, words, **options):
        with open(os.path.join(self.dir, name + ".log"), "ab") as log:
            p = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self.env, start_new_session=True, **options)
        self.processes.append(p)
        return p

    def log(self, name):
        with open(os.path.join(self.dir, name + ".log"), errors="replace") as f:
            return f.read()

    # ---- certificates ----

    def certificate(self, name, subject, names=""):
        at = os.path.join(self.pki, name)
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-keyout", at + ".key", "-out", at + ".csr")
        with open(at + ".ext", "w") as f:
            f.write("extendedKeyUsage=serverAuth,clientAuth\n" + (f"subjectAltName={names}\n" if names else ""))
        run("openssl", "x509", "-req", "-in", at + ".csr", "-CA", self.pki + "/ca.crt", "-CAkey", self.pki + "/ca.key", "-CAcreateserial", "-days", "2", "-extfile", at + ".ext", "-out", at + ".crt")

    def certificates(self):
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=kubelab", "-keyout", self.pki + "/ca.key", "-out", self.pki + "/ca.crt")
        self.certificate("api", "/CN=kube-apiserver", f"DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:{HOST},IP:10.96.0.1")
        self.certificate("admin", "/O=system:masters/CN=admin")
        run("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.pki + "/sa.key")
        run("openssl", "ec", "-in", self.pki + "/sa.key", "-pubout", "-out", self.pki + "/sa.pub")
        self.kubeconfig("admin")

    def kubeconfig(self, name):
        at = os.path.join(self.pki, name)
        with open(at + ".conf", "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "lab",
                       "clusters": [{"name": "lab", "cluster": {"server": f"https://{HOST}:6443", "certificate-authority": self.pki + "/ca.crt"}}],
                       "users": [{"name": name, "user": {"client-certificate": at + ".crt", "client-key": at + ".key"}}],
                       "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": name}}]}, f)

    # ---- control plane ----

    def control_plane(self):
        at, programs = self.pki, os.path.join(CACHE, "bin")
        self.start("etcd", ["etcd", "--data-dir", self.dir + "/etcd", "--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
                            "--listen-peer-urls", "http://127.0.0.1:2380", "--unsafe-no-fsync"] if self.etcd_knows("--unsafe-no-fsync") else
                   ["etcd", "--data-dir", self.dir + "/etcd", "--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
                    "--listen-peer-urls", "http://127.0.0.1:2380"])
        self.start("apiserver", [
            programs + "/kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443", f"--advertise-address={HOST}",
            f"--client-ca-file={at}/ca.crt", f"--tls-cert-file={at}/api.crt", f"--tls-private-key-file={at}/api.key", f"--service-account-key-file={at}/sa.pub",
            f"--service-account-signing-key-file={at}/sa.key", "--service-account-issuer=https://lab", "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true", f"--kubelet-client-certificate={at}/admin.crt", f"--kubelet-client-key={at}/admin.key",
            "--kubelet-preferred-address-types=InternalIP", "--enable-aggregator-routing=true",  # webhooks by the pods' addresses: no kube-proxy beside it
        ])
        if not within(90, lambda: "ok" == self.kubectl("get", "--raw", "/readyz", ok=None).strip()):
            raise RuntimeError(f"the API server does not become ready; see {self.dir}/apiserver.log: {self.log('apiserver')[-500:]}")
        self.start("controllers", [programs + "/kube-controller-manager", f"--kubeconfig={at}/admin.conf", f"--service-account-private-key-file={at}/sa.key",
                                   f"--root-ca-file={at}/ca.crt", "--leader-elect=false", "--node-monitor-grace-period=20s"])
        self.start("scheduler", [programs + "/kube-scheduler", f"--kubeconfig={at}/admin.conf", "--leader-elect=false"])

    def etcd_knows(self, option):
        return option in run("etcd", "--help", check_it=False)

    def kubectl(self, *words, ok=True, stdin=None, timeout=120):
        """What kubectl prints. ok: a failure is one of the test; None: either way."""
        p = self.kubectl_raw(*words, stdin=stdin, timeout=timeout)
        if ok is not None:
            check((p.returncode == 0) == ok, f"kubectl {' '.join(words)}: exit status {p.returncode}: {p.stderr.strip()[-800:]}")
        return p.stdout if p.returncode == 0 else p.stdout + p.stderr

    def kubectl_raw(self, *words, stdin=None, timeout=120):
        return subprocess.run(["kubectl", *words], env=self.env, input=stdin, capture_output=True, text=True, timeout=timeout, cwd=self.work)

    def get(self, *words):
        p = self.kubectl_raw("get", *words, "-o", "json")
        return json.loads(p.stdout) if p.returncode == 0 else None


class Dns:
    """The cluster's DNS: dnsmasq with a hosts file made anew whenever a Service or its Endpoints change. (Debian 12 has no CoreDNS.)"""

    def __init__(self, lab):
        self.lab, self.known, self.hosts, self.guard, self.text = lab, {}, os.path.join(lab.dir, "hosts"), threading.Lock(), None
        open(self.hosts, "w").close()
        self.begin()
        for kind in ("services", "endpoints"):
            threading.Thread(target=self.watch, args=(kind,), daemon=True).start()

    def begin(self):
        self.p = self.lab.start("dns", ["dnsmasq", "-k", "--user=root", "--no-resolv", "--no-hosts", "--addn-hosts=" + self.hosts, "--local=/cluster.local/",
                                        "--listen-address=" + HOST, "--bind-interfaces", "--pid-file=" + self.lab.dir + "/dns.pid"])
        def listens():  # a SIGHUP before it has begun would end it
            with socket.socket() as s:
                return s.connect_ex((HOST, 53)) == 0
        if not within(20, listens):
            raise RuntimeError(f"dnsmasq does not listen: {self.lab.log('dns')}")

    def end(self):
        self.p.kill()
        self.p.wait()

    def watch(self, kind):
        """A watch of the API from the beginning, again and again."""
        while True:
            try:
                tls = ssl.create_default_context(cafile=self.lab.pki + "/ca.crt")
                tls.load_cert_chain(self.lab.pki + "/admin.crt", self.lab.pki + "/admin.key")
                c = http.client.HTTPSConnection(HOST, 6443, context=tls, timeout=3600)
                c.request("GET", f"/api/v1/{kind}?watch=1")
                for line in c.getresponse():
                    self.event(kind, json.loads(line))
            except (OSError, ValueError, http.client.HTTPException):
                pace(0.2)

    def event(self, kind, event):
        thing = event["object"]
        if thing.get("kind") == "Status":
            return
        with self.guard:
            key = (kind, thing["metadata"]["namespace"], thing["metadata"]["name"])
            self.known.pop(key, None) if event["type"] == "DELETED" else self.known.update({key: thing})
            lines = []
            for (what, space, name), o in sorted(self.known.items()):
                full = f"{name}.{space}.svc.cluster.local"
                if what == "services":
                    address = o["spec"].get("clusterIP")
                    lines += [f"{address} {full}"] if address not in (None, "", "None") else []
                    continue
                service = self.known.get(("services", space, name))
                if service is None or service["spec"].get("clusterIP") != "None":
                    continue
                for part in o.get("subsets") or []:
                    late = part.get("notReadyAddresses", []) if service["spec"].get("publishNotReadyAddresses") else []
                    for a in part.get("addresses", []) + late:
                        lines += [f"{a['ip']} {full}"] + ([f"{a['ip']} {a['hostname']}.{full}"] if a.get("hostname") else [])
            text = "".join(line + "\n" for line in lines)
            if text != self.text:
                self.text = text
                with open(self.hosts, "w") as f:
                    f.write(text)
                if self.p.poll() is None:
                    self.p.send_signal(signal.SIGHUP)
