import"./c.623FEUVD.js";import"./c.5EFP32Y5.js";import"./c.SJLQEVXC.js";import"./c.6CPR5BD2.js";import"./c.KHQEP2DK.js";import"./c.L5IBBXPZ.js";
