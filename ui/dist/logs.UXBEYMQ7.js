import"./c.GSDXJG7N.js";import"./c.XFF4HJR5.js";import"./c.KHQEP2DK.js";import"./c.L5IBBXPZ.js";
