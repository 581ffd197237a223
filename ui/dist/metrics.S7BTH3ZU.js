import"./c.I2EPX7UN.js";import"./c.XFY33YZO.js";import"./c.SJLQEVXC.js";import"./c.6CPR5BD2.js";import"./c.KHQEP2DK.js";import"./c.L5IBBXPZ.js";
