"""The pod's CU mask and priority class on every queue that the driver makes, whoever asks for it."""
import re

import pytest
from card import end, parameters, pod_on  # noqa: F401

HSASH = "test/card/hsash.c"


def masks(pod):
    """The masks as the driver got them, without their empty words."""
    found = [re.search(r"mask=(\S+)", row)[1].split(",") for row in pod.log("SET_CU_MASK")]
    return [[word for word in words if int(word, 16)] for words in found]


def queues(pod):
    """{queue: [priority, ...]} of compute queues, from creation on."""
    found = {}
    for row in pod.log("_QUEUE "):
        words = dict(re.findall(r"(\w+)=(\S+)", row))
        if "CREATE_QUEUE" in row and words["type"] in ("0", "2"):
            found[words["queue"]] = [int(words["priority"])]
        elif "UPDATE_QUEUE" in row and words["queue"] in found:
            found[words["queue"]].append(int(words["priority"]))
    return found


@parameters()
def test_every_queue_has_the_pods_mask_rocrs_own_included(pod_on, release):
    pod = pod_on(release)
    hip = pod.run("1G", HSA_CU_MASK="0:0-15")
    hip.ok("setenv HSA_CU_MASK 0:0-63")
    hip.ok("setenv HSA_CU_MASK_SKIP_INIT 1")
    hip.ok("stream s")
    hip.ok("malloc a 1M")
    hip.ok("memset a 1 1M")
    hip.ok("devsync")
    created = queues(pod)
    masked = {re.search(r"queue=(\S+)", row)[1] for row in pod.log("SET_CU_MASK")}
    assert len(created) >= 2 and set(created) <= masked, (created, masked)
    assert all(mask == ["0x0000ffff"] for mask in masks(pod)), masks(pod)


@parameters("7.2", "6.4", "5.7")  # 5.2.3 never returns from such a call under HSA_CU_MASK, with or without the library
def test_a_stream_with_its_own_mask_stays_inside_the_pods(pod_on, release):
    pod = pod_on(release)
    hip = pod.run("1G", HSA_CU_MASK="0:0-15")
    hip("streammask s ffffffff ffffffff ffffffff ff")
    hip("streammask t 000000ff 0 0 0")
    hip("streammask u 0 0 ffffffff 0")
    sent = masks(pod)
    assert sent and all(mask in (["0x0000ffff"], ["0x000000ff"]) for mask in sent), sent


@parameters()
def test_a_direct_hsa_programs_queue_is_inside_mask_and_class(pod_on, release):
    pod = pod_on(release)
    hsa = pod.run("1G", shell=HSASH, HSA_CU_MASK="0:0-15", AMD_TASK_PRIORITY="1")
    hsa.ok("init")
    hsa.ok("queue 0")
    hsa("priority 2")
    assert masks(pod) and all(mask == ["0x0000ffff"] for mask in masks(pod))
    assert queues(pod) and all(set(seen) == {0} for seen in queues(pod).values()), queues(pod)


@parameters()
@pytest.mark.parametrize("value, low, high", [("0", 11, 15), ("1", 0, 0)])
def test_every_queue_is_born_in_its_class_and_stays_there(pod_on, release, value, low, high):
    pod = pod_on(release)
    hip = pod.run("1G", AMD_TASK_PRIORITY=value)
    hip.ok("stream s")
    hip.ok("streamprio t -1")
    hip.ok("streamprio u 1")
    hip.ok("malloc a 1M")
    for stream in "stu":
        hip.ok("memset a 1 1M")
    hip.ok("devsync")
    seen = queues(pod)
    assert len(seen) >= 3
    assert all(low <= priority <= high for priorities in seen.values() for priority in priorities), seen


QUEUE = """
kfd = Kfd()
queue = kfd.create_queue(priority=7)
kfd.update_queue(queue, 15)
kfd.set_cu_mask(queue, [0xffffffff, 0xffffffff, 0xffffffff, 0xff])
kfd.set_cu_mask(queue, [0x0])
say("done")
"""


def test_a_raw_kfd_programs_queue_is_inside_mask_and_class(pod_on):
    pod = pod_on("7.2")
    assert end(pod.client(QUEUE, HSA_CU_MASK="0:64-79", AMD_TASK_PRIORITY="5")) == "done\n"
    assert list(queues(pod).values()) == [[0, 0]]
    assert masks(pod) == [["0x0000ffff"]] * 3


def test_a_queue_of_a_newer_header_is_inside_mask_and_class(pod_on):
    pod = pod_on("7.2")
    client = pod.client("""
ring = ctypes.create_string_buffer(b"\\x01\\x00" * 2048, 8192)
pointers = (ctypes.c_uint64 * 2)(0, 0)
kfd, at = Kfd(), ctypes.addressof(pointers)
call(kfd.fd, kfd_command(0x02, 96), "QQQQIIIIIIQQQIIII", ctypes.addressof(ring), at, at + 8, 0, 4096, FIRST_GPU_ID, 2, 100, 7, 0,
     0, 0, 0, 0, 4096, 0, 0)
say("done")
""", HSA_CU_MASK="0:0-15", AMD_TASK_PRIORITY="1")
    assert end(client) == "done\n"
    assert list(queues(pod).values()) == [[0]] and masks(pod) == [["0x0000ffff"]]


def test_without_settings_a_queue_is_as_the_program_wants_it(pod_on):
    pod = pod_on("7.2")
    assert end(pod.client(QUEUE.replace("kfd.set_cu_mask(queue, [0x0])\n", ""))) == "done\n"
    assert list(queues(pod).values()) == [[7, 15]]
    assert masks(pod) == [["0xffffffff"] * 3 + ["0x000000ff"]]
