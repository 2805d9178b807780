"""Contact sheets: the frames of a batch as a grid of images, with captions and marks.

Begin with `contact_sheet.py`, then `batch_sheet.py`.
Only `show` of a batch uses this package.
"""
