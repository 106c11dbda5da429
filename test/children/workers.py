"""Starts two workers as torchrun and data loaders do; each runs a command: workers.py fork|spawn|forkserver COMMAND"""
import multiprocessing
import os
import sys


def work(command):
    os.system(command)


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    workers = [context.Process(target=work, args=(sys.argv[2],)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
