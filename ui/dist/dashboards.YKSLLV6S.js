import"./c.URCIAJXY.js";import"./c.NZPFBSHR.js";import"./c.24L63MGN.js";import"./c.KHQEP2DK.js";import"./c.L5IBBXPZ.js";
